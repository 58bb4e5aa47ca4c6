// What all tests of pages share: a browser, and a look for what not everybody can use.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const DESK = { width: 1280, height: 800 };
export const PHONE = { width: 390, height: 844 };

/** Start the browser that CHROMIUM names. */
export function launch() {
  const executablePath = process.env.CHROMIUM ?? "chromium";
  // The pages are ours, and the browser of a container has no sandbox.
  return chromium.launch({ executablePath, args: ["--no-sandbox"] });
}

/** Start the program that THERMOCLINE names, and wait for the address that it prints to that stream. */
export async function start(words, stream, pattern) {
  const program = process.env.THERMOCLINE;
  assert.ok(program, "THERMOCLINE names no program");
  const stdio = ["ignore", "inherit", "inherit"];
  stdio[stream === "stdout" ? 1 : 2] = "pipe";
  const child = spawn(program, words, { stdio });
  const lines = createInterface({ input: child[stream] });
  const address = await new Promise((found, failed) => {
    // All lines are read, or the program waits for a reader one day.
    const all = [];
    lines.on("line", (line) => {
      all.push(line);
      const address = line.match(pattern)?.[1];
      if (address) found(address);
    });
    lines.on("close", () => failed(new Error(`the program printed no address, but:\n${all.join("\n")}`)));
  });
  return { process: child, address };
}

/** Fail on what screen readers and keyboards cannot use, and on what is wider than the page. */
export async function look(page, name) {
  await page.evaluate(AXE);
  const violations = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join("\n")}`);
  });
  assert.deepEqual(violations, [], name);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name} is ${wide} pixels wider than the page`);
}

/** Save what the page looks like, if SCREENSHOTS names a folder. */
export async function picture(page, name, options = {}) {
  const folder = process.env.SCREENSHOTS;
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`), ...options });
}
