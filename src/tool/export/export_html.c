/* export_html.c - the page with a profile in it: what is packed, and where it is put. */
#include "export_html.h"

#include <stdlib.h>
#include <string.h>

#include "export_formats.h"
#include "export_gzip.h"

static const char PAGE_MARK[] = "<!--tally-data-->";

bool export_has_page(void)
{
    return export_html_page_length > 0;
}

/* --- packing: JSON -> gzip -> base64 -> the document --- */

struct packer {
    struct export_output *document;
    struct export_output text, packed; /* what goes into gzip, what comes out of it */
    struct export_gzip gzip;
    unsigned char held[3]; /* of the group that is not full */
    size_t held_count;
};

static void put_group(struct packer *packer, size_t used)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = packer->held;
    char group[4] = {digits[in[0] >> 2], digits[(in[0] & 3) << 4 | in[1] >> 4],
                     digits[(in[1] & 15) << 2 | in[2] >> 6], digits[in[2] & 63]};
    for (size_t i = used + 1; i < sizeof group; i++)
        group[i] = '=';
    export_output_bytes(packer->document, group, sizeof group);
    memset(packer->held, 0, sizeof packer->held);
    packer->held_count = 0;
}

static bool to_base64(void *context, const void *bytes, size_t length)
{
    struct packer *packer = context;
    const unsigned char *in = bytes;
    for (size_t i = 0; i < length; i++) {
        packer->held[packer->held_count++] = in[i];
        if (packer->held_count == sizeof packer->held)
            put_group(packer, sizeof packer->held);
    }
    return !packer->document->failed;
}

static bool to_gzip(void *context, const void *bytes, size_t length)
{
    struct packer *packer = context;
    export_gzip_bytes(&packer->gzip, bytes, length);
    return !packer->packed.failed;
}

static struct packer *begin_packer(struct export_output *document, const char *name)
{
    struct packer *packer = calloc(1, sizeof *packer);
    if (!packer)
        return NULL;
    packer->document = document;
    packer->text.sink = to_gzip;
    packer->text.context = packer->packed.context = packer;
    packer->packed.sink = to_base64;
    if (!export_gzip_begin(&packer->gzip, &packer->packed)) {
        free(packer);
        return NULL;
    }
    export_output_text(document, "<script type=\"text/plain\" id=\"tally-");
    export_output_text(document, name);
    export_output_text(document, "\">");
    return packer;
}

static bool end_packer(struct packer *packer)
{
    export_output_flush(&packer->text);
    export_gzip_end(&packer->gzip);
    export_output_flush(&packer->packed);
    if (packer->held_count)
        put_group(packer, packer->held_count);
    export_output_text(packer->document, "</script>\n");
    bool done = !packer->text.no_memory;
    free(packer);
    return done;
}

/* --- the document --- */

static bool put_profile(struct export_job *job, const char *name, const struct profile *profile,
                        const struct export_options *options)
{
    struct packer *packer = begin_packer(job->output, name);
    if (!packer)
        return false;
    bool written = export_html_data(&packer->text, profile, options);
    return end_packer(packer) && written;
}

static bool put_document(struct export_job *job, const struct export_document *document)
{
    struct packer *packer = begin_packer(job->output, document->name);
    if (!packer)
        return false;
    export_output_bytes(&packer->text, document->bytes, document->length);
    return end_packer(packer);
}

static bool put_page_data(struct export_job *job)
{
    const struct export_options *options = job->options;
    bool done = put_profile(job, "profile", job->profile, options);
    if (done && options->against) {
        struct export_options against = {.part = options->against_part,
                                         .counter = options->against_counter,
                                         .creator = options->creator,
                                         .file = options->against_file};
        done = put_profile(job, "against", options->against, &against);
    }
    for (size_t i = 0; done && i < options->document_count; i++)
        done = put_document(job, &options->documents[i]);
    return done;
}

bool export_html(struct export_job *job)
{
    const char *mark = strstr(export_html_page, PAGE_MARK);
    if (!mark) /* export_profile has asked export_has_page; the build has looked for the mark */
        return false;
    export_output_bytes(job->output, export_html_page, (size_t)(mark - export_html_page));
    bool done = put_page_data(job);
    export_output_text(job->output, mark + sizeof PAGE_MARK - 1);
    return done;
}
