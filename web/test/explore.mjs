// Uses the page of `thermocline explore` in Chromium: node --test test/explore.mjs
//
// THERMOCLINE names the program and CHROMIUM the browser. Screenshots go to the folder that SCREENSHOTS
// names, if it is set.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";

import { DESK, PHONE, launch, look as lookAt, picture, start } from "./browser.mjs";

/** A study that is over soon. */
const SMALL = "from=bundled&policies=hat+lru&ram=2+2+1&flash=2+8+2";
/** A trace that is read at once. */
const TRACE = [
  "timestamp_us,op,volume,offset,length",
  ...Array.from({ length: 400 }, (_, n) => `${n * 1000},${n % 5 ? "R" : "W"},0,${((n * 7) % 50) * 4096},4096`),
].join("\n");

const serve = () => start(["explore"], "stdout", /(http:\S+)/);
const folder = mkdtempSync(join(tmpdir(), "explore-"));
let browser;
let server;
before(async () => {
  [browser, server] = await Promise.all([launch(), serve()]);
});
after(async () => {
  await browser?.close();
  server?.process.kill();
  rmSync(folder, { recursive: true });
});

/** Opens the page, and fails on errors at the end, but for answers that say no. */
async function open(t, { hash = "", address = server.address, size = DESK, colorScheme = "light", faulty = false } = {}) {
  const options = { viewport: size, colorScheme, acceptDownloads: true, permissions: ["clipboard-read", "clipboard-write"] };
  const context = await browser.newContext(options);
  context.setDefaultTimeout(20_000);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    const isIcon = message.location().url.endsWith("/favicon.ico");
    if (message.type() === "error" && !isIcon) faults.push(message.text());
  });
  page.on("request", (request) => {
    const isOurs = request.url().startsWith(address) || /^(data|blob):/.test(request.url());
    if (!isOurs && !request.url().endsWith("/favicon.ico")) faults.push(request.url());
  });
  await page.goto(hash ? `${address}#${hash}` : address);
  t.after(async () => {
    await context.close();
    if (!faulty) assert.deepEqual(faults, []);
  });
  return page;
}

/** Looks at the page, and saves what it looks like. */
async function look(page, name) {
  await lookAt(page, name);
  await picture(page, `explore-${name}`);
}

/** Waits until every point is exact. */
async function finished(page) {
  await page.locator(".study .words", { hasText: /exact\.$/ }).waitFor();
  await page.waitForFunction(() => /^(All|The point)/.test(document.querySelector(".study .words")?.textContent ?? ""));
  // Charts are drawn where they are seen.
  await page.locator(".results figure").first().scrollIntoViewIfNeeded();
  await page.locator(".results .charts:not(.is-off) .is-live .live svg").first().waitFor();
}

/** The next study that the page asks for, when something is done. */
async function asked(page, act) {
  const isStudy = (request) => request.method() === "POST" && request.url().endsWith("/api/studies");
  const [request] = await Promise.all([page.waitForRequest(isStudy), act()]);
  return request.postDataJSON();
}

const tab = (page, name) => page.getByRole("tab", { name });
const inHash = (page, name) => page.evaluate((name) => new URLSearchParams(location.hash.slice(1)).get(name), name);

test("a trace is chosen, read, and compared", async (t) => {
  const page = await open(t);
  await page.getByText("Choose a trace.", { exact: true }).waitFor();
  await look(page, "empty");
  await page.getByRole("button", { name: "Use the bundled trace" }).click();
  await page.locator(".known", { hasText: "accesses" }).waitFor();
  // The first curve comes before all points are exact, and says so.
  await page.locator(".results figure .is-live .live svg").first().waitFor();
  assert.match(await page.locator(".study .words").textContent(), /points/);
  await tab(page, "Results").focus();
  await page.keyboard.press("ArrowLeft");
  assert.equal(await tab(page, "Character").getAttribute("aria-selected"), "true");
  await page.locator("#panel-character figure .is-live .live svg").first().waitFor();
  await look(page, "character");
});

for (const [name, size] of Object.entries({ desk: DESK, phone: PHONE })) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${name}, ${colorScheme}`, async (t) => {
      const page = await open(t, { hash: SMALL, size, colorScheme });
      await finished(page);
      await look(page, `results-${name}-${colorScheme}`);
      if (size === PHONE) {
        await page.getByText("What is compared").click();
        await page.getByText("Endurance", { exact: true }).click();
      }
      await page.getByText("Prices", { exact: true }).click();
      await page.getByLabel("Count costs").check();
      await page.getByLabel("RAM, exactly").fill("5");
      if (size === PHONE || colorScheme === "dark") {
        await look(page, `controls-${name}-${colorScheme}`);
      }
      if (size === PHONE) {
        await page.locator(".results button.open").first().click();
        await page.locator("dialog .command").first().waitFor();
        await look(page, `point-${name}-${colorScheme}`);
      }
    });
  }
}

test("every policy can be chosen, by keys", async (t) => {
  const page = await open(t, { hash: SMALL });
  const boxes = page.locator(".policies .policy input");
  await boxes.first().waitFor();
  const all = await boxes.count();
  const names = await boxes.evaluateAll((all) => all.map((box) => box.value));
  assert.ok(all > 20 && new Set(names).size === all, String(names));
  await page.getByRole("button", { name: "Choose none" }).click();
  await page.getByText("Choose at least one policy.").waitFor();
  await boxes.first().focus();
  for (let place = 0; place < all; place += 1) {
    await page.keyboard.press("Space");
    await page.keyboard.press("ArrowDown");
  }
  await page.getByText(`${all} of ${all} chosen`).waitFor();
  assert.deepEqual((await inHash(page, "policies")).split(" ").toSorted(), names.toSorted());
  // So many points take a while: enough to stop them.
  const words = page.locator(".study .words");
  await words.filter({ hasText: "points" }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await words.filter({ hasText: "stopped" }).waitFor();
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByRole("button", { name: "Stop" }).waitFor();
  await page.getByRole("button", { name: "Choose none" }).click();
  const search = page.locator(".policies input[type=search]");
  await search.fill("nothing that is there");
  await page.getByText("No policy has these words.").waitFor();
  await search.fill("hat");
  const { policies } = await asked(page, () => page.locator('.policy input[value="hat"]').check());
  assert.deepEqual(policies, ["hat"]);
  await search.fill("");
  const { policies: few } = await asked(page, () => page.getByRole("button", { name: "Choose a few" }).click());
  assert.ok(few.length > 1, String(few));
});

test("sizes, prices, endurance and devices are set, and there again after a reload", async (t) => {
  const page = await open(t, { hash: SMALL });
  await page.locator(".results figure").first().waitFor();
  let ask = await asked(page, async () => {
    await page.getByLabel("Flash to").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
  });
  assert.deepEqual(ask.flash, ["2%", "9.51%"]);
  assert.match(await page.getByLabel("Flash to").getAttribute("aria-valuetext"), /^9.51 %, .* MiB$/);
  // The lower end takes the upper one with it.
  ask = await asked(page, async () => {
    await page.getByLabel("Flash from").focus();
    await page.keyboard.press("End");
  });
  assert.deepEqual(ask.flash, ["100%"]);
  await page.keyboard.press("Home");
  ask = await asked(page, () => page.getByLabel("Number of Flash sizes").fill("3"));
  assert.equal(ask.flash.length, 3);
  ask = await asked(page, () => page.getByLabel("Number of RAM sizes").fill("2"));
  assert.deepEqual(ask.ram, ["2%", "8%"]);

  await page.getByText("Prices", { exact: true }).click();
  ask = await asked(page, () => page.getByLabel("Count costs").check());
  assert.deepEqual(Object.keys(ask.prices_per_gib).toSorted(), ["disk", "flash", "ram"]);
  for (const [label, tier] of [["RAM", "ram"], ["Flash", "flash"], ["Disk", "disk"]]) {
    const before = ask.prices_per_gib[tier];
    ask = await asked(page, async () => {
      await page.getByLabel(label, { exact: true }).focus();
      await page.keyboard.press("ArrowRight");
    });
    assert.ok(ask.prices_per_gib[tier] > before, label);
  }
  ask = await asked(page, async () => {
    await page.getByLabel("Flash, exactly").fill("0.123");
    await page.keyboard.press("Tab");
  });
  assert.equal(ask.prices_per_gib.flash, 0.123);

  await page.getByText("Endurance", { exact: true }).first().click();
  await page.getByLabel("Set how often flash can be written").check();
  ask = await asked(page, async () => {
    await page.getByLabel("Endurance, exactly").fill("777");
    await page.keyboard.press("Tab");
  });
  assert.equal(ask.endurance_cycles, 777);

  await page.getByText("Devices", { exact: true }).click();
  for (const [label, tier] of [["Flash device", "flash"], ["Disk device", "disk"]]) {
    const select = page.getByLabel(label);
    const last = await select.evaluate((select) => select.options[select.options.length - 1].value);
    ask = await asked(page, () => select.selectOption(last));
    assert.equal(ask.devices[tier], last);
  }
  // The same choices are the same study after a reload.
  const again = await asked(page, () => page.reload());
  assert.deepEqual(again, ask);
  assert.equal(await page.getByLabel("Flash, exactly").inputValue(), "0.123");
});

test("what the reader has set stays while results come", async (t) => {
  const page = await open(t, { hash: SMALL });
  await finished(page);
  const figure = page.locator(".results figure.switched").first();
  const names = await figure.locator("select option").allTextContents();
  await figure.locator("select").selectOption({ label: names[1] });
  await figure.locator(".charts:not(.is-off) .live svg").first().waitFor();
  const key = figure.locator(".keys button").first();
  const pressed = await key.getAttribute("aria-pressed");
  await key.click();
  const table = page.locator(".results table.sortable").first();
  const head = table.locator("th", { hasText: "I/O time" }).first();
  await head.locator("button").click();
  // The figure is not made anew, and does not move.
  await figure.evaluate((figure) => (figure.dataset.known = "yes"));
  const top = () => figure.evaluate((figure) => figure.getBoundingClientRect().top + scrollY);
  const before = await top();
  await asked(page, () => page.getByRole("button", { name: "Run again" }).click());
  await page.waitForTimeout(300);
  await finished(page);
  assert.equal(await top(), before);
  assert.equal(await figure.getAttribute("data-known"), "yes");
  assert.equal(await figure.locator(".charts:not(.is-off)").getAttribute("data-name"), names[1]);
  assert.notEqual(await key.getAttribute("aria-pressed"), pressed);
  assert.equal(await head.getAttribute("aria-sort"), "ascending");
});

test("points are opened, pinned, compared and saved", async (t) => {
  const page = await open(t, { hash: SMALL });
  await finished(page);
  const dialog = page.locator("dialog");
  const close = async () => {
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  };
  // By a click on a mark of a chart.
  const chart = page.locator(".results .picks[tabindex]").first();
  await chart.scrollIntoViewIfNeeded();
  await chart.locator(".mark-symbol path").first().hover({ force: true });
  await chart.locator(".mark-symbol path").first().click({ force: true });
  await dialog.locator(".command").first().waitFor();
  await dialog.locator("figure .is-live .live svg").first().waitFor();
  await look(page, "point");
  const copy = dialog.locator(".command button.copy").first();
  await copy.click();
  await dialog.getByText("Copied").waitFor();
  const text = await dialog.locator(".command code").first().textContent();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
  assert.match(text, /^thermocline simulate /);
  await dialog.getByRole("button", { name: "Pin to compare" }).click();
  await dialog.getByRole("button", { name: "Unpin" }).waitFor();
  await close();
  // By keys in a chart.
  await chart.focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(await chart.locator("[role=status]").textContent(), /^(hat|lru), .* of RAM/);
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  await close();
  assert.ok(await chart.evaluate((chart) => chart === document.activeElement), "the focus comes back");
  // By a row of the table, and by its button.
  const row = page.locator(".results tr.opens").last();
  await row.locator("td.number:visible").first().click();
  await dialog.waitFor();
  await close();
  await row.locator("button.open").focus();
  await page.keyboard.press("Enter");
  await dialog.getByRole("button", { name: "Pin to compare" }).click();
  await close();

  await tab(page, "Pinned (2)").click();
  const pins = page.locator(".pins tbody tr");
  assert.equal(await pins.count(), 2);
  assert.equal(await page.locator(".pins .best").count() > 0, true);
  await look(page, "pins");
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save as a report" }).click(),
  ]);
  assert.match(readFileSync(await saved.path(), "utf8"), /^<!DOCTYPE html>/);
  // Pins are there again after a reload.
  await page.reload();
  await finished(page);
  await tab(page, "Pinned (2)").click();
  await pins.first().getByRole("button", { name: /^Unpin/ }).click();
  await tab(page, "Pinned (1)").waitFor();
  await pins.first().locator("button.open").click();
  await dialog.getByRole("button", { name: "Unpin" }).click();
  await close();
  await page.getByText("Choose a point of a chart").waitFor();
});

test("files are dropped and chosen; what is no trace is told", async (t) => {
  const page = await open(t);
  await page.locator(".chooser summary").waitFor();
  await page.evaluate((text) => {
    const data = new DataTransfer();
    data.items.add(new File([text], "<b>dropped</b>.csv"));
    dispatchEvent(new DragEvent("dragover", { dataTransfer: data, cancelable: true }));
    dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
  }, TRACE);
  // Names are text.
  const dropped = page.locator(".known li", { hasText: "<b>dropped</b>.csv" });
  await dropped.getByText("400 accesses").waitFor();
  await page.locator(".results figure").first().waitFor();

  const chooser = page.locator(".chooser");
  const unfold = async () => {
    if (!(await chooser.evaluate((it) => it.open))) await chooser.locator("summary").click();
  };
  const bad = join(folder, "bad.csv.zst");
  writeFileSync(bad, "this is no trace");
  await unfold();
  await page.locator("input[type=file]").setInputFiles(bad);
  await page.locator(".problem[role=alert]", { hasText: "bad.csv.zst" }).waitFor();
  await unfold();
  const path = page.getByLabel("Path of a trace on this computer");
  await path.fill("/there/is/no.csv");
  await page.keyboard.press("Enter");
  await page.locator(".problem[role=alert]", { hasText: "/there/is/no.csv" }).waitFor();
  await look(page, "problem");
  const good = join(folder, "good.csv");
  writeFileSync(good, TRACE);
  await unfold();
  await path.fill(good);
  await chooser.getByRole("button", { name: "Open" }).click();
  await page.locator(".known li", { hasText: "good.csv" }).getByText("400 accesses").waitFor();
  // All that were added are removed again, and the page shows another trace when it is chosen.
  for (const name of ["no.csv", "bad.csv.zst", "good.csv", "dropped"]) {
    await page.locator(".known li", { hasText: name }).getByRole("button").click();
  }
  assert.equal(await page.locator(".known li", { hasText: "csv" }).filter({ hasText: /dropped|good|bad|no\.csv/ }).count(), 0);
});

test("a slow network piles up no requests", async (t) => {
  const page = await open(t, { hash: SMALL });
  await finished(page);
  const network = await page.context().newCDPSession(page);
  const slow = { offline: false, latency: 400, downloadThroughput: 200_000, uploadThroughput: 50_000 };
  await network.send("Network.emulateNetworkConditions", slow);
  let [going, most, studies] = [0, 0, 0];
  page.on("request", (request) => {
    most = Math.max(most, (going += 1));
    studies += request.method() === "POST" ? 1 : 0;
  });
  page.on("requestfinished", () => (going -= 1));
  page.on("requestfailed", () => (going -= 1));
  const slider = page.getByLabel("Flash to");
  await slider.focus();
  for (let step = 0; step < 24; step += 1) {
    await page.keyboard.press(step < 16 ? "ArrowRight" : "ArrowLeft");
    await page.waitForTimeout(40);
  }
  // The page answers meanwhile, and shows the former results.
  assert.ok(await page.locator(".results figure").first().isVisible());
  await finished(page);
  assert.ok(studies <= 2, `${studies} studies`);
  assert.ok(most <= 4, `${most} requests at one time`);
});

test("a lost connection is told, and the page goes on when it is back", async (t) => {
  const page = await open(t, { hash: SMALL, faulty: true });
  await finished(page);
  await page.context().setOffline(true);
  await page.getByLabel("Flash to").focus();
  await page.keyboard.press("ArrowRight");
  await page.locator(".banner").waitFor();
  await page.context().setOffline(false);
  await page.locator(".banner").waitFor({ state: "detached" });
  await finished(page);
});

test("a server that is killed is told", async (t) => {
  const own = await serve();
  const page = await open(t, { hash: SMALL, address: own.address, faulty: true });
  await finished(page);
  const gone = new Promise((done) => own.process.once("exit", done));
  own.process.kill("SIGKILL");
  await gone;
  await page.locator(".banner", { hasText: "connection" }).waitFor();
  let requests = 0;
  page.on("request", () => (requests += 1));
  // What was found stays, and can be used.
  await page.locator(".results figure select").first().selectOption({ index: 1 });
  await page.locator(".banner", { hasText: "thermocline explore" }).waitFor();
  assert.ok(requests <= 8, `${requests} requests`);
  await look(page, "killed");
});
