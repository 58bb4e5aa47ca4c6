// Makes the scripts of the pages: node build.mjs REPORT_OUT EXPLORE_OUT
//
// One file without imports for each page: what a report has built in, and what `thermocline explore`
// serves. It begins with the licences of all that is in it, as a report is a copy of these packages.

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { build } from "esbuild";

const entries = ["src/report.ts", "src/explore/main.tsx"];
const outfiles = process.argv.slice(2);
if (outfiles.length !== entries.length) {
  console.error("usage: node build.mjs REPORT_OUT EXPLORE_OUT");
  process.exit(2);
}

/** The folder of the package that a file belongs to. */
const packageOf = (file) => file.match(/^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//)?.[1];

/** The licences of the packages that these files are from, each text once. */
function notices(files) {
  const folders = [...new Set(files.map(packageOf).filter(Boolean))].sort();
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
  return [...texts.values()].map(({ text, packages }) => `${packages.join(", ")}:\n\n${text}`);
}

for (const [place, entry] of entries.entries()) {
  const { metafile, outputFiles } = await build({
    absWorkingDir: import.meta.dirname,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    charset: "ascii",
    legalComments: "none",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    metafile: true,
    write: false,
  });
  const words = notices(Object.keys(metafile.inputs)).join("\n\n---\n\n");
  const banner = `/*! ${words.replaceAll("*/", "* /")}\n*/\n`;
  const script = banner + outputFiles[0].text;
  // A page is text in ASCII, and ends its script where the script ends.
  const safe = script.replace(/[\u0080-\uffff]/g, "?").replaceAll("</script", "<\\/script").replaceAll("<!--", "<\\!--");
  writeFileSync(outfiles[place], safe);
}
