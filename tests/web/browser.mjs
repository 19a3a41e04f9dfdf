// browser.mjs MODULES CHROMIUM - opens pages and says what is in them, until its input ends. A line of that is a plan, JSON: its steps, and a
// path for a picture of what went wrong. A line of the output is what each step found, and everything that must not happen: errors, words
// on the console, requests.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const [modules, executablePath] = process.argv.slice(2);
const require = createRequire(join(modules, "x.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(join(modules, "axe-core", "axe.min.js"), "utf8");

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
let page, delay; // another page costs seconds
let bad = [], local = true; // does all that is asked for lie in files?

/** `late`: timers of its scripts come so many ms later, as on a busy machine. */
async function openPage(late) {
  if (page) await page.context().close();
  page = await (await browser.newContext({ bypassCSP: true })).newPage();
  delay = late;
  page.setDefaultTimeout(60000); // so that what never comes is reported; a busy machine takes its time
  page.on("console", (message) => bad.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => bad.push(`error: ${error.stack}`));
  page.on("request", (request) => {
    if (local && !/^(file|data|about):/.test(request.url())) bad.push(`request: ${request.url()}`);
  });
  if (late) await page.addInitScript((more) => {
    const begin = setTimeout;
    globalThis.setTimeout = (act, ms = 0, ...of) => begin(act, ms + more, ...of);
  }, late);
}

/** What comes next is loaded anew. */
async function open({ scheme = "light", width = 1280, height = 860, late = 0 }) {
  if (!page || delay !== late) await openPage(late);
  await page.goto("about:blank");
  await page.emulateMedia({ colorScheme: scheme });
  await page.setViewportSize({ width, height });
}

/** Every row of a table, which may be longer than what is in the document at a time. */
async function rows(selector) {
  return page.evaluate(async (name) => {
    const table = document.querySelector(name), seen = new Map();
    const texts = (row) => [...row.cells].map((cell) => cell.innerText.replace(/\s+/g, " ").trim());
    const titles = texts(table.querySelector("thead tr")).map((text) => text.replace(/ [▲▼]$/, ""));
    for (let last = -1; table.scrollTop !== last; ) {
      for (const row of table.querySelectorAll("tbody tr:not([aria-hidden])"))
        seen.set(Number(row.getAttribute("aria-rowindex")), Object.fromEntries(texts(row).map((text, i) => [titles[i], text])));
      last = table.scrollTop;
      table.scrollTop += table.clientHeight / 2;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
    return [...seen].sort((a, b) => a[0] - b[0]).map((it) => it[1]);
  }, selector);
}

async function settle() {
  await page.waitForFunction(() => document.querySelector("main h1, main .warning"));
  await page.waitForFunction(() => ![...document.querySelectorAll("main p")].some((it) => it.innerText === "Unpacking …"));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

const steps = {
  open: (step) => open(step),
  async go({ file, hash = "" }) {
    const address = "file://" + file + "#/" + hash;
    await page.evaluate(() => {
      globalThis.was = location.href;
      globalThis.changed = new Promise((done) => addEventListener("hashchange", done, { once: true }));
    });
    await page.goto(address);
    await page.evaluate(() => "was" in globalThis && globalThis.was !== location.href && globalThis.changed); // it has heard of it, too
    await settle();
  },
  async visit({ address, hash = "" }) {
    local = false; // the page itself comes over the network here
    await page.goto(address + "#/" + hash);
    await settle();
    local = true;
  },
  async text({ of = "main" }) {
    return page.locator(of).first().innerText();
  },
  async texts({ of }) {
    return page.locator(of).evaluateAll((list) => list.map((it) => it.innerText ?? it.textContent));
  },
  async rows({ of }) {
    return rows(of);
  },
  async click({ of }) {
    await page.locator(of).first().click();
    await settle();
  },
  async type({ of, text }) {
    await page.fill(of, text);
    await settle();
  },
  async choose({ of, value }) {
    await page.selectOption(of, value);
    await settle();
  },
  async slide({ of, value }) {
    await page.locator(of).fill(String(value));
    await settle();
  },
  async keys({ of, keys }) {
    if (of) await page.focus(of);
    for (const key of keys) await page.keyboard.press(key);
    await settle();
  },
  /** Over a canvas, from one part of its width to another; `left`: pixels that do not count. */
  async drag({ of, from_, to, left = 0 }) {
    const area = await page.locator(of).first().boundingBox(), x = (part) => area.x + left + part * (area.width - left);
    await page.mouse.move(x(from_), area.y + area.height / 2);
    await page.mouse.down();
    await page.mouse.move(x((from_ + to) / 2), area.y + area.height / 2);
    await page.mouse.move(x(to), area.y + area.height / 2);
    await page.mouse.up();
    await settle();
  },
  async hash() {
    return page.evaluate(() => location.hash);
  },
  async title() {
    return page.title();
  },
  async focused() {
    return page.evaluate(() => document.activeElement?.id ?? "");
  },
  /** Images with the colours that the legend has for them. */
  async legend() {
    return page.evaluate(() => [...document.querySelectorAll(".legend > span")].map((it) => [it.textContent.trim(), getComputedStyle(it.firstElementChild).backgroundColor]));
  },
  /** How far the document is wider than the window. */
  async overflow() {
    return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  },
  /** How many pixels of a canvas have colour, of all. */
  async painted({ of }) {
    return page.evaluate((name) => {
      const { width, height } = document.querySelector(name), all = width * height;
      const pen = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
      pen.drawImage(document.querySelector(name), 0, 0);
      const bytes = pen.getImageData(0, 0, width, height).data;
      let painted = 0;
      for (let i = 3; i < bytes.length; i += 4) if (bytes[i]) painted++;
      return painted / all;
    }, of);
  },
  /** What shuts people out. `of`: "colours" in another scheme, where all else is the same, "structure" at another width, where colours are. */
  async axe({ of = "all" }) {
    await page.evaluate(() => Promise.all(document.getAnimations().map((one) => one.finished))); // colours on their way are not the page's
    if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
    const rules = { all: {}, colours: { runOnly: ["color-contrast"] }, structure: { rules: { "color-contrast": { enabled: false } } } }[of];
    const found = await page.evaluate((options) => globalThis.axe.run(document, options), { resultTypes: ["violations"], ...rules });
    return found.violations.map((it) => `${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
  },
  async shot({ path, full = false }) {
    await page.screenshot({ path, fullPage: full });
  },
  async print({ path }) {
    await page.pdf({ path, format: "A4", printBackground: true });
  },
  /** Milliseconds until the first view was there, and those that a search and a zoom take. */
  async speed({ file, words }) {
    await page.goto("file://" + file + "#/flame");
    await settle();
    const marks = await page.evaluate(() => ({
      paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
      shown: performance.getEntriesByName("tally-shown")[0]?.startTime ?? 0 }));
    const took = (act) => page.evaluate(async (code) => {
      const start = performance.now();
      new Function(code)();
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      return performance.now() - start;
    }, act);
    const search = await took(`const it = document.getElementById("search"); it.value = ${JSON.stringify(words)};
      it.dispatchEvent(new Event("input", { bubbles: true }));`);
    const middle = await page.evaluate(() => {
      const area = document.querySelector("canvas").getBoundingClientRect();
      return { x: area.left + area.width / 4, y: area.top + 50 };
    });
    const zoom = await took(`const at = document.querySelector("canvas");
      at.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: ${middle.x}, clientY: ${middle.y} }));`);
    return { ...marks, search, zoom };
  },
};

async function follow(plan) {
  const found = [];
  bad = [];
  try {
    for (const step of plan.steps) found.push((await steps[step.do](step)) ?? null);
  } catch (error) {
    bad.push(`step ${found.length + 1}: ${error.message}`);
    await page.screenshot({ path: plan.picture }).catch(() => undefined);
  }
  return { found, bad };
}

for await (const line of createInterface({ input: process.stdin })) process.stdout.write(JSON.stringify(await follow(JSON.parse(line))) + "\n");
await browser.close();
