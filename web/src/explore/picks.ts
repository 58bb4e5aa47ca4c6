// Which point of a study a mark of a chart, or a row of a table, stands for.

import type { Picked } from "../cursor";
import { textOf, valueOf } from "../tables";
import type { Place, Row } from "./api";
import { bytes, parseBytes } from "./numbers";

/** A size in words is rounded, by less than this part of it. */
const ROUNDED = Math.log(1.06);

/** What is known of a point: sizes in bytes. */
interface Known {
  ram?: number | undefined;
  flash?: number | undefined;
  /** Both together. */
  cache?: number | undefined;
}

/** The point that a mark stands for, if it is one. */
export function pickedRow(rows: Row[], { datum, title, choice, x, y }: Picked): Row | undefined {
  const name = datum["name"] ?? choice;
  const known: Known = { ...inWords(title), ...inWords(choice) };
  for (const [axis, value] of [
    [x, datum["x"]],
    [y, datum["y"]],
  ] as const) {
    if (axis === "ram" || axis === "flash" || axis === "cache") {
      known[axis] = typeof value === "number" ? value : parseBytes(String(value));
    }
  }
  const own = rows.filter((row) => row.policy === name);
  if (own.length > 1 && Object.values(known).every((size) => size === undefined)) {
    return undefined;
  }
  const near = own.map((row) => ({ row, far: distance(row, known) })).filter(({ far }) => far <= ROUNDED);
  return near.sort((one, other) => one.far - other.far)[0]?.row;
}

/** The sizes that a title tells: `3.0 MiB of RAM`, or `RAM 3.0 MiB, flash 6.1 MiB`. */
function inWords(text: string): Known {
  const size = "([\\d.]+ [KMGTP]?i?B)";
  const found = (pattern: string): number | undefined => {
    const match = text.match(new RegExp(pattern));
    return match?.[1] === undefined ? undefined : parseBytes(match[1]);
  };
  const ram = found(`${size} of RAM`) ?? found(`RAM ${size}`);
  const flash = found(`flash ${size}`);
  return { ...(ram !== undefined && { ram }), ...(flash !== undefined && { flash }) };
}

/** How far a point is from what is known, as a logarithm of the farthest size. */
function distance(row: Row, { ram, flash, cache }: Known): number {
  const of = (known: number | undefined, own: number): number =>
    known === undefined || own === 0 ? 0 : Math.abs(Math.log(own / known));
  return Math.max(of(ram, row.ram_bytes), of(flash, row.flash_bytes), of(cache, row.ram_bytes + row.flash_bytes));
}

/** The point that a row of a table stands for, if it is one. */
export function tableRow(rows: Row[], element: HTMLTableRowElement): Row | undefined {
  const head = element.closest("table")?.tHead?.rows[0];
  const policy = textOf(element.cells[0]);
  const pages = (tier: string): number | undefined => {
    const column = [...(head?.cells ?? [])].findIndex((cell) => textOf(cell) === `${tier} pages`);
    return column < 0 ? undefined : Number(valueOf(element.cells[column]));
  };
  const [ram, flash] = [pages("ram"), pages("flash")];
  if (ram === undefined && flash === undefined) {
    return undefined;
  }
  const is = (known: number | undefined, own: number): boolean =>
    known === undefined || Number.isNaN(known) || known === own;
  return rows.find((row) => row.policy === policy && is(ram, row.ram_pages) && is(flash, row.flash_pages));
}

/** A point in words. */
export function nameOf(row: Row): string {
  const flash = row.flash_pages > 0 ? `, ${bytes(row.flash_bytes)} of flash` : "";
  return `${row.policy}, ${bytes(row.ram_bytes)} of RAM${flash}`;
}

/** Whether two are the same configuration. */
export function isSame(one: Place, other: Place): boolean {
  return (
    one.policy === other.policy && one.ram_pages === other.ram_pages && one.flash_pages === other.flash_pages
  );
}
