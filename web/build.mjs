// Makes the script of the reports: node build.mjs OUTFILE
//
// One file without imports. It begins with the licences of all that is in it, as a report is a copy of
// these packages.

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { build } from "esbuild";

const outfile = process.argv[2];
if (!outfile) {
  console.error("usage: node build.mjs OUTFILE");
  process.exit(2);
}

const { metafile, outputFiles } = await build({
  absWorkingDir: import.meta.dirname,
  entryPoints: ["src/report.ts"],
  bundle: true,
  minify: true,
  charset: "ascii",
  legalComments: "none",
  target: "es2022",
  metafile: true,
  write: false,
});

/** The folder of the package that a file belongs to. */
const packageOf = (file) => file.match(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//)?.[1];
const folders = [...new Set(Object.keys(metafile.inputs).map(packageOf).filter(Boolean))].sort();

const texts = new Map();
for (const folder of folders) {
  const root = join(import.meta.dirname, folder);
  const { name, version, license } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const file = readdirSync(root).find((file) => /^licen[cs]e/i.test(file));
  const text = file && existsSync(join(root, file)) ? readFileSync(join(root, file), "utf8").trim() : license;
  // The same words with other line ends or spaces are the same text.
  const key = text.replace(/\s+/g, " ");
  const known = texts.get(key) ?? { text, packages: [] };
  known.packages.push(`${name} ${version}`);
  texts.set(key, known);
}
const notices = [...texts.values()].map(({ text, packages }) => `${packages.join(", ")}:\n\n${text}`);
const banner = `/*! ${notices.join("\n\n---\n\n").replaceAll("*/", "* /")}\n*/\n`;
const script = banner + outputFiles[0].text;
// A report is text in ASCII, and ends its script where the script ends.
writeFileSync(outfile, script.replace(/[\u0080-\uffff]/g, "?").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--"));
