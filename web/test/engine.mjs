// Looks at the page of `thermocline serve` in Chromium: node --test test/engine.mjs
//
// THERMOCLINE names the program and CHROMIUM the browser. Screenshots go to the folder that SCREENSHOTS
// names, if it is set.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after, before } from "node:test";

import { DESK, PHONE, launch, look, picture, start } from "./browser.mjs";

const PAGE_BYTES = 4096;
const PAGES = 4096;
/** Longer than the page waits before it renews itself. */
const LATER_MS = 11_000;
/** RAM and flash are small enough that pages leave both; a shadow has something to advise. */
const CONFIGURATION = `
shadow = ["lru", "lc:ram=2x"]
shadow_sample = 1.0
[backing]
path = "disk.img"
[flash]
path = "flash.img"
size = "4MiB"
rated_writes = "600TB"
[ram]
size = "1MiB"
[policy]
name = "hat"
[nbd]
socket = "thermocline.sock"
[metrics]
listen = "127.0.0.1:0"
`;

const folder = mkdtempSync(join(tmpdir(), "engine-"));
let browser;
let server;
let client;
before(async () => {
  writeFileSync(join(folder, "disk.img"), "");
  truncateSync(join(folder, "disk.img"), PAGES * PAGE_BYTES);
  writeFileSync(join(folder, "cache.toml"), CONFIGURATION);
  const words = ["serve", join(folder, "cache.toml")];
  [browser, server] = await Promise.all([launch(), start(words, "stderr", /serving metrics.*address=(\S+)/)]);
  client = await connected();
  await use();
});
after(async () => {
  await browser?.close();
  client?.socket.destroy();
  server?.process.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});

/** Connect to the export as a client of the fixed newstyle protocol, with one request at a time. */
async function connected() {
  const socket = connect(join(folder, "thermocline.sock"));
  let received = Buffer.alloc(0);
  socket.on("data", (data) => (received = Buffer.concat([received, data])));
  const take = async (bytes) => {
    while (received.length < bytes) await once(socket, "data");
    const taken = received.subarray(0, bytes);
    received = received.subarray(bytes);
    return taken;
  };
  const greeting = await take(18);
  assert.equal(greeting.toString("latin1", 0, 16), "NBDMAGICIHAVEOPT");
  // Both flags, and the option that ends the talk: the export of the empty name.
  const option = Buffer.alloc(20);
  option.writeUInt32BE(3, 0);
  option.write("IHAVEOPT", 4, "latin1");
  option.writeUInt32BE(1, 12);
  socket.write(option);
  assert.equal(Number((await take(10)).readBigUInt64BE(0)), PAGES * PAGE_BYTES);
  const request = async (type, page, payload) => {
    const head = Buffer.alloc(28);
    head.writeUInt32BE(0x25609513, 0);
    head.writeUInt16BE(type, 6);
    head.writeBigUInt64BE(BigInt(page * PAGE_BYTES), 16);
    head.writeUInt32BE(PAGE_BYTES, 24);
    socket.write(payload ? Buffer.concat([head, payload]) : head);
    const reply = await take(16);
    assert.deepEqual([reply.readUInt32BE(0), reply.readUInt32BE(4)], [0x67446698, 0]);
    if (type === 0) await take(PAGE_BYTES);
  };
  return { socket, read: (page) => request(0, page), write: (page) => request(1, page, Buffer.alloc(PAGE_BYTES, page)) };
}

/** Read and write pages, some of them again and again. */
async function use() {
  for (let turn = 0; turn < 1500; turn += 1) {
    const page = turn % 3 === 0 ? (turn * 31) % 200 : (turn * 97) % PAGES;
    await (turn % 4 === 1 ? client.write(page) : client.read(page));
  }
}

/** Open the page; at the end, fail on errors and on requests to anywhere else. */
async function open(t, { size = DESK, colorScheme = "light", isLost = false } = {}) {
  const context = await browser.newContext({ viewport: size, colorScheme });
  const page = await context.newPage();
  // The page renews itself every few seconds, which tests do not wait for.
  await page.clock.install();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("request", (request) => {
    if (!request.url().startsWith(`http://${server.address}/`) && !request.url().startsWith("data:")) faults.push(request.url());
  });
  await page.goto(`http://${server.address}/`);
  t.after(async () => {
    await context.close();
    if (!isLost) assert.deepEqual(faults, []);
  });
  return page;
}

const reads = (page) => page.locator("section", { hasText: "Where pages were found" }).locator("table").last().textContent();

for (const [name, size] of Object.entries({ desk: DESK, phone: PHONE })) {
  for (const colorScheme of ["light", "dark"]) {
    test(`${name}, ${colorScheme}`, async (t) => {
      const page = await open(t, { size, colorScheme });
      await look(page, "the page");
      await page.locator("summary").focus();
      await page.keyboard.press("Enter");
      assert.ok(await page.locator("details").getAttribute("open") !== null);
      await look(page, "all figures");
      await picture(page, `engine-${name}-${colorScheme}`, { fullPage: true });
    });
  }
}

test("figures are renewed, but not while the page is paused", async (t) => {
  const page = await open(t);
  await page.locator("summary").click();
  const before = await reads(page);
  await use();
  await page.clock.runFor(LATER_MS);
  await page.waitForFunction((before) => !document.querySelector("#content").textContent.includes(before), before);
  assert.ok(await page.locator("details").getAttribute("open") !== null, "what was opened stays open");
  await look(page, "renewed");

  await page.getByRole("button", { name: "Pause" }).click();
  const paused = await reads(page);
  await use();
  let asked = 0;
  page.on("request", () => (asked += 1));
  await page.clock.runFor(LATER_MS);
  assert.deepEqual([asked, await reads(page)], [0, paused]);
  await page.getByRole("button", { name: "Go on" }).click();
  await page.clock.runFor(LATER_MS);
  await page.waitForFunction((before) => !document.querySelector("#content").textContent.includes(before), paused);
});

test("the page says that the server does not answer", async (t) => {
  const page = await open(t, { isLost: true });
  server.process.kill("SIGKILL");
  await page.clock.runFor(LATER_MS);
  await page.getByText("The server does not answer.").waitFor();
  await look(page, "without a server");
});
