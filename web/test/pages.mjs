// Opens reports in Chromium and uses them: node test/pages.mjs REPORT...
//
// The first report must be one of a comparison: all that pages can do is tried on it. Screenshots go to
// the folder that SCREENSHOTS names, if it is set.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import test, { after, before } from "node:test";

import { parquetReadObjects } from "hyparquet";

import { DESK, PHONE, launch, look, picture } from "./browser.mjs";

const reports = (process.env.REPORTS ?? "").split("\n").filter(Boolean);
assert.ok(reports.length > 0, "REPORTS names no report");

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser?.close());

/** Opens a report, and fails on errors and on requests to anywhere. */
async function open(path, options = {}) {
  const context = await browser.newContext({ acceptDownloads: true, ...options });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("request", (request) => /^(data|blob|file):/.test(request.url()) || faults.push(request.url()));
  await page.goto(pathToFileURL(path).href);
  return { page, faults, close: () => context.close() };
}

/** Scrolls through the page, so that every chart in view is drawn. */
async function drawAll(page) {
  await page.evaluate(async () => {
    for (const chart of document.querySelectorAll(".chart")) {
      if (chart.clientWidth === 0) continue;
      chart.scrollIntoView();
      for (let tries = 0; tries < 200 && !chart.classList.contains("is-live"); tries += 1) {
        await new Promise((done) => setTimeout(done, 20));
      }
      if (!chart.querySelector(".live svg")) throw new Error(`not drawn: ${chart.textContent.slice(0, 80)}`);
    }
  });
}

for (const path of reports) {
  for (const [name, size] of Object.entries({ desk: DESK, phone: PHONE })) {
    for (const colorScheme of ["light", "dark"]) {
      // All reports have the same rules: the first is looked at in every way, the others in two.
      if (path !== reports[0] && (name === "desk") !== (colorScheme === "light")) continue;
      test(`${basename(path)}: ${name}, ${colorScheme}`, async () => {
        const { page, faults, close } = await open(path, { viewport: size, colorScheme });
        await drawAll(page);
        await look(page, basename(path));
        assert.deepEqual(faults, []);
        await page.evaluate(() => scrollTo(0, 0));
        await picture(page, `${basename(path, ".html")}-${name}-${colorScheme}`, { fullPage: true });
        await close();
      });
    }
  }

  test(`${basename(path)}: on paper and without scripts`, async () => {
    const live = await open(path);
    await drawAll(live.page);
    await live.page.emulateMedia({ media: "print" });
    const hidden = await live.page.evaluate(() =>
      [...document.querySelectorAll(".chart > svg, th, table td")].filter((it) => it.getClientRects().length === 0).length,
    );
    assert.equal(hidden, 0, "something is not printed");
    const isLiveShown = await live.page.locator(".live").evaluateAll((all) => all.some((it) => it.clientHeight > 0));
    assert.ok(!isLiveShown, "charts are printed twice");
    const pdf = await live.page.pdf({ format: "A4" });
    assert.ok(pdf.length > 1000);
    await live.close();
    const still = await open(path, { javaScriptEnabled: false });
    for (const drawing of await still.page.locator(".chart > svg").all()) {
      assert.ok(await drawing.isVisible());
    }
    await still.close();
  });
}

/** The first columns of a table as it stands. */
const columns = (page, column) =>
  page.locator("table.sortable").first().evaluate(
    (table, at) => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[at].textContent),
    column,
  );

test("charts are switched, and lines stand out or not", async () => {
  const { page, faults, close } = await open(reports[0]);
  await drawAll(page);
  const figure = page.locator("figure.switched").first();
  // Charts are drawn where they are seen.
  await figure.locator("select").scrollIntoViewIfNeeded();
  const shown = () => figure.locator(".charts:not(.is-off)").getAttribute("data-name");
  const names = await figure.locator("select option").allTextContents();
  assert.equal(await shown(), names[0]);
  await figure.locator("select").selectOption({ label: names[1] });
  assert.equal(await shown(), names[1]);
  await figure.locator(".charts:not(.is-off) .live svg").first().waitFor();

  const strokes = () =>
    figure.locator(".charts:not(.is-off) .live svg path[stroke]").evaluateAll((all) => all.map((it) => it.getAttribute("stroke")).join());
  const before = await strokes();
  const key = figure.locator('.keys button[aria-pressed="false"]').first();
  const toggled = (await key.count()) > 0 ? key : figure.locator(".keys button").first();
  const name = await toggled.textContent();
  const pressed = figure.locator(".keys button", { hasText: name }).first();
  const was = await pressed.getAttribute("aria-pressed");
  await pressed.focus();
  await page.keyboard.press("Enter");
  assert.notEqual(await pressed.getAttribute("aria-pressed"), was);
  await page.waitForFunction((old) => {
    const all = document.querySelectorAll("figure.switched .charts:not(.is-off) .live svg path[stroke]");
    return [...all].map((it) => it.getAttribute("stroke")).join() !== old;
  }, before);
  assert.deepEqual(faults, []);
  await close();
});

test("tables are sorted, filtered and saved", async () => {
  const { page, faults, close } = await open(reports[0]);
  // Charts that are drawn meanwhile would move what is clicked.
  await drawAll(page);
  const table = page.locator("table.sortable").first();
  const tools = page.locator(".tools:has(input[type=search])").first();
  const head = table.locator("th", { hasText: "I/O time" }).first();
  const at = await head.evaluate((cell) => cell.cellIndex);
  const numbers = async () => (await columns(page, at)).map((text) => Number(text.replaceAll(",", ""))).filter(Number.isFinite);
  await head.locator("button").click();
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
  const up = await numbers();
  assert.deepEqual(up, up.toSorted((one, other) => one - other));
  await head.locator("button").click();
  const down = await numbers();
  assert.deepEqual(down, up.toReversed());

  const policy = (await columns(page, 0))[0];
  await tools.locator("input[type=search]").fill(policy);
  const left = await columns(page, 0);
  assert.ok(left.length > 0 && left.length < up.length && left.every((name) => name.includes(policy)), String(left));
  await tools.locator("input[type=search]").fill("");

  const save = async (format) => {
    const [saved] = await Promise.all([
      page.waitForEvent("download"),
      tools.locator("button", { hasText: format }).click(),
    ]);
    return readFileSync(await saved.path());
  };
  const json = JSON.parse(await save("JSON"));
  assert.equal(json.length, up.length);
  const csv = (await save("CSV")).toString().trim().split("\n");
  assert.equal(csv.length, up.length + 1);
  const parquet = await save("Parquet");
  const file = parquet.buffer.slice(parquet.byteOffset, parquet.byteOffset + parquet.byteLength);
  const rows = await parquetReadObjects({ file });
  assert.equal(rows.length, json.length);
  const title = Object.keys(json[0]).find((key) => key.includes("I/O time"));
  assert.deepEqual(rows.map((row) => row[title]), json.map((row) => row[title]));
  // What is saved is not rounded.
  assert.ok(json.some((row) => !Number.isInteger(row[title] * 10)), "figures are as exact as they were found");
  assert.deepEqual(faults, []);
  await close();
});

test("two tables under one heading have names of their own", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "pages-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const twice = join(folder, "twice.html");
  const report = readFileSync(reports[0], "utf8");
  writeFileSync(twice, report.replace(/<div class="wide">[^]*?<\/table><\/div>/, (table) => table + table));
  const { page, close } = await open(twice, { viewport: PHONE });
  await drawAll(page);
  // Axe tells tables apart only where they scroll.
  const regions = page.locator('.wide[role="region"]');
  await regions.nth(1).waitFor();
  const labels = await regions.evaluateAll((all) => all.map((it) => it.getAttribute("aria-label")));
  assert.ok(labels.length > 1 && new Set(labels).size === labels.length, String(labels));
  await look(page, "two tables");
  await close();
});

test("commands are copied", async () => {
  const { page, close } = await open(reports[0], { permissions: ["clipboard-read", "clipboard-write"] });
  await drawAll(page);
  const copy = page.locator("button.copy").first();
  await copy.click();
  await page.waitForFunction(() => document.querySelector("button.copy")?.textContent !== "Copy the command");
  await close();
});
