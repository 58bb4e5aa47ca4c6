// Tables as files.

import { parquetWriteBuffer } from "hyparquet-writer";

/** What a cell holds: a number, or text. */
export type Value = number | string;

/** A table as comma-separated values. */
export function csv(names: string[], rows: Value[][]): string {
  const quote = (value: Value): string =>
    /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  return `${[names, ...rows].map((row) => row.map(quote).join(",")).join("\n")}\n`;
}

/** A table as an object per row. */
export function json(names: string[], rows: Value[][]): string {
  const objects = rows.map((row) => Object.fromEntries(row.map((value, at) => [names[at], value])));
  return `${JSON.stringify(objects, null, 2)}\n`;
}

/** A table as Parquet: a column of numbers has nulls where a cell has none. */
export function parquet(names: string[], rows: Value[][]): ArrayBuffer {
  const columnData = names.map((name, at) => {
    const column = rows.map((row) => row[at] ?? "");
    if (column.some((value) => typeof value === "number")) {
      const data = column.map((value) => (typeof value === "number" ? value : null));
      return { name, data, type: "DOUBLE" as const, nullable: true };
    }
    return { name, data: column.map(String), type: "STRING" as const };
  });
  return parquetWriteBuffer({ columnData });
}
