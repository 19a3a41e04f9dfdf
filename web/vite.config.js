// One HTML file out of all of it: script and style go where the document names them.
import { defineConfig } from "vite";

function inline() {
  return {
    name: "inline",
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["index.html"];
      for (const [file, part] of Object.entries(bundle)) {
        if (part === page) continue;
        const text = part.type === "chunk" ? part.code : String(part.source);
        const name = file.replaceAll(".", "\\.");
        const script = new RegExp(`<script[^>]*src="[^"]*${name}"[^>]*></script>`);
        const style = new RegExp(`<link[^>]*href="[^"]*${name}"[^>]*>`);
        if (part.type === "chunk") {
          // After the data, which stand in the body: nothing is read before it is there.
          page.source = page.source.replace(script, "");
          page.source = page.source.replace("<!--script-->", () =>
            `<script type="module">${text.replaceAll("</script", "<\\/script")}</script>`);
        } else {
          page.source = page.source.replace(style, () => `<style>${text}</style>`);
        }
        delete bundle[file];
      }
      if (!page.source.includes("<!--tally-data-->") || /(src|href)="[^"#d]/.test(page.source.split("<style>")[0]))
        throw new Error("the page is not whole, or asks for other files");
    },
  };
}

export default defineConfig({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "inline" },
  build: { target: "es2022", assetsInlineLimit: 1 << 20, cssCodeSplit: false, modulePreload: false,
           reportCompressedSize: false },
  plugins: [inline()],
});
