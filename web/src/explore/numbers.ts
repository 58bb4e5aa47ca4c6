// Numbers as a reader reads them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A number of bytes: `1.5 MiB`. */
export function bytes(count: number): string {
  let [value, unit] = [count, 0];
  while (value >= 1024 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  const decimals = unit > 0 && value < 10 && !Number.isInteger(value) ? 1 : 0;
  return `${value.toFixed(decimals)} ${UNITS[unit]}`;
}

/** The number of bytes that a text such as `1.5 MiB` says. */
export function parseBytes(text: string): number | undefined {
  const [, number, unit] = text.match(/^([\d.]+) ([KMGTP]?i?B)$/) ?? [];
  const power = UNITS.indexOf(unit ?? "");
  return power < 0 ? undefined : Number(number) * 1024 ** power;
}

/** A whole number in groups of three digits. */
export function grouped(count: number): string {
  return Math.round(count).toLocaleString("en-US");
}

/** Three digits that tell something. */
export function short(value: number): string {
  return value === 0 ? "0" : String(Number(value.toPrecision(3)));
}
