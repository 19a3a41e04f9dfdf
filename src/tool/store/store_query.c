#include "base_json.h"
#include "store.h"

#include <math.h>
#include <string.h>

#include "base_utf8.h"
#include "store_open.h"

/* --- one statement, reading only --- */

static int only_reading(void *context, int action, const char *first, const char *second,
                        const char *database, const char *trigger)
{
    (void)context, (void)second, (void)database, (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return second && !strcmp(second, "load_extension") ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA:
        return first && (!strcmp(first, "table_info") || !strcmp(first, "table_list")) ? SQLITE_OK
                                                                                       : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

/* --- output --- */

struct printer {
    FILE *out;
    enum store_query_format format;
    struct base_text quoted; /* of one value */
};

/* For a terminal: what must not reach one as it is, and what would end the value, has an escape. */
static void print_plain(struct printer *printer, const char *text)
{
    base_text_clear(&printer->quoted);
    base_utf8_clean(&printer->quoted, text, false);
    fputs(base_text_string(&printer->quoted), printer->out);
}

static void print_csv(FILE *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

/* A profile may come from an untrusted source: bytes that are not UTF-8 would make the whole output no
 * JSON. */
static void print_json_text(struct printer *printer, const char *text)
{
    base_text_clear(&printer->quoted);
    base_json_quote(&printer->quoted, text);
    fputs(base_text_string(&printer->quoted), printer->out);
}

static void print_json_value(struct printer *printer, sqlite3_stmt *row, int column)
{
    const char *text = (const char *)sqlite3_column_text(row, column);
    int type = sqlite3_column_type(row, column);
    if (type == SQLITE_NULL || !text)
        fputs("null", printer->out);
    else if (type == SQLITE_INTEGER || (type == SQLITE_FLOAT && isfinite(sqlite3_column_double(row, column))))
        fputs(text, printer->out);
    else
        print_json_text(printer, text);
}

static void print_row(struct printer *printer, sqlite3_stmt *row, bool first)
{
    FILE *out = printer->out;
    enum store_query_format format = printer->format;
    int columns = sqlite3_column_count(row);
    if (format == STORE_QUERY_JSON)
        fputs(first ? "\n  {" : ",\n  {", out);
    for (int i = 0; i < columns; i++) {
        const char *text = (const char *)sqlite3_column_text(row, i);
        if (i)
            fputs(format == STORE_QUERY_JSON ? ", " : format == STORE_QUERY_CSV ? "," : "\t", out);
        if (format == STORE_QUERY_JSON) {
            print_json_text(printer, sqlite3_column_name(row, i));
            fputs(": ", out);
            print_json_value(printer, row, i);
        } else if (format == STORE_QUERY_CSV) {
            print_csv(out, text ? text : "");
        } else {
            print_plain(printer, text ? text : "");
        }
    }
    fputs(format == STORE_QUERY_JSON ? "}" : "\n", out);
}

static void print_names(struct printer *printer, sqlite3_stmt *statement)
{
    FILE *out = printer->out;
    for (int i = 0; i < sqlite3_column_count(statement); i++) {
        const char *name = sqlite3_column_name(statement, i);
        if (i)
            fputc(printer->format == STORE_QUERY_CSV ? ',' : '\t', out);
        if (printer->format == STORE_QUERY_CSV)
            print_csv(out, name);
        else
            print_plain(printer, name);
    }
    fputc('\n', out);
}

static int print_rows(sqlite3 *db, sqlite3_stmt *statement, enum store_query_format format, FILE *out,
                      struct base_error *error)
{
    struct printer printer = {.out = out, .format = format};
    bool first = true;
    int code;
    if (format == STORE_QUERY_JSON)
        fputc('[', out);
    else
        print_names(&printer, statement);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        print_row(&printer, statement, first);
        first = false;
    }
    if (format == STORE_QUERY_JSON)
        fputs(first ? "]\n" : "\n]\n", out);
    bool failed = printer.quoted.failed;
    base_text_free(&printer.quoted);
    if (failed)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    return code == SQLITE_DONE ? BASE_OK : base_fail(error, BASE_EFORMAT, "%s", sqlite3_errmsg(db));
}

int store_query(const char *path, const char *sql, enum store_query_format format, FILE *out,
                struct base_error *error)
{
    sqlite3 *db;
    sqlite3_stmt *statement = NULL;
    const char *rest = NULL;
    int result = store_open_read(path, &db, error);
    if (result < 0)
        return result;
    sqlite3_set_authorizer(db, only_reading, NULL);
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, &rest);
    if (code == SQLITE_AUTH || (code == SQLITE_OK && statement && !sqlite3_stmt_readonly(statement)))
        result = base_fail(error, BASE_EUSAGE, "only reading is allowed in a query");
    else if (code != SQLITE_OK)
        result = base_fail(error, BASE_EUSAGE, "%s", sqlite3_errmsg(db));
    else if (!statement)
        result = base_fail(error, BASE_EUSAGE, "the query is empty");
    else if (rest && rest[strspn(rest, " \t\r\n;")])
        result = base_fail(error, BASE_EUSAGE, "one statement at a time: '%s' follows it", rest);
    else
        result = print_rows(db, statement, format, out, error);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return result;
}
