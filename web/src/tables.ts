// Tables that can be sorted, filtered and saved.

import { parquetWriteBuffer } from "hyparquet-writer";

import { button, download, fileName, make } from "./elements";

/** A table with fewer rows needs no filter. */
const FILTERED_ROWS_MIN = 8;

/** What a cell holds: a number, or text. */
type Value = number | string;

/** Enhances every table of the page. */
export function enhanceTables(): void {
  for (const table of document.querySelectorAll("table")) {
    enhance(table);
  }
}

function enhance(table: HTMLTableElement): void {
  const head = table.tHead?.rows[0];
  const body = table.tBodies[0];
  if (!head || !body || body.rows.length === 0) {
    return;
  }
  const rows = [...body.rows];
  const tools = make("div", { class: "tools" });
  const wide = table.closest(".wide") ?? table;
  wide.before(tools);
  if (rows.length > 1) {
    makeSortable(head, body, rows);
    table.classList.add("sortable");
    hideConstants(head, rows, tools);
  }
  if (rows.length >= FILTERED_ROWS_MIN) {
    addFilter(rows, tools);
  }
  addDownloads(table, head, rows, tools);
  makeScrollable(wide);
}

/** A region that scrolls takes the keyboard's focus, so that keys scroll it. */
function makeScrollable(wide: Element): void {
  const update = (): void => {
    const isScrolled = wide.scrollWidth > wide.clientWidth;
    if (isScrolled) {
      wide.setAttribute("tabindex", "0");
      wide.setAttribute("role", "region");
      wide.setAttribute("aria-label", titleOf(wide));
    } else {
      wide.removeAttribute("tabindex");
      wide.removeAttribute("role");
      wide.removeAttribute("aria-label");
    }
  };
  new ResizeObserver(update).observe(wide);
  update();
}

/** The heading above something. */
function titleOf(element: Element): string {
  let before: Element | null = element;
  while (before) {
    if (before.tagName === "H2" || before.tagName === "H1") {
      return before.textContent ?? "";
    }
    before = before.previousElementSibling;
  }
  return document.title;
}

function textOf(cell: Element | undefined): string {
  return cell?.textContent?.trim() ?? "";
}

/** The value of a cell: the number that its text is rounded from, if it has one. */
function valueOf(cell: HTMLTableCellElement | undefined): Value {
  const exact = cell?.dataset["value"];
  if (exact !== undefined) {
    return Number(exact);
  }
  const text = textOf(cell);
  if (cell?.classList.contains("number")) {
    const number = Number(text.replaceAll(",", ""));
    if (text !== "" && Number.isFinite(number)) {
      return number;
    }
  }
  return text;
}

/** Numbers before texts, so that what is missing stands last. */
function compare(one: Value, other: Value): number {
  if (typeof one === "number" && typeof other === "number") {
    return one - other;
  }
  if (typeof one !== typeof other) {
    return typeof one === "number" ? -1 : 1;
  }
  return String(one).localeCompare(String(other), undefined, { numeric: true });
}

function makeSortable(
  head: HTMLTableRowElement,
  body: HTMLTableSectionElement,
  rows: HTMLTableRowElement[],
): void {
  [...head.cells].forEach((cell, column) => {
    if (cell.tagName !== "TH") {
      return;
    }
    const sort = button("", () => {
      const isUp = cell.getAttribute("aria-sort") === "ascending";
      for (const other of head.cells) {
        other.removeAttribute("aria-sort");
      }
      cell.setAttribute("aria-sort", isUp ? "descending" : "ascending");
      const ordered = rows
        .map((row) => ({ row, value: valueOf(row.cells[column]) }))
        .sort((one, other) => {
          // What has no number stands last in either direction.
          const isMixed = typeof one.value !== typeof other.value;
          const order = compare(one.value, other.value);
          return isUp && !isMixed ? -order : order;
        });
      body.append(...ordered.map(({ row }) => row));
    });
    sort.className = "sort";
    sort.append(...cell.childNodes);
    cell.append(sort);
  });
}

/** Columns that say the same in every row are hidden until somebody asks for them. */
function hideConstants(
  head: HTMLTableRowElement,
  rows: HTMLTableRowElement[],
  tools: HTMLElement,
): void {
  const isConstant = (column: number): boolean =>
    column > 0 && rows.every((row) => textOf(row.cells[column]) === textOf(rows[0]?.cells[column]));
  const constants = [...head.cells].map((_, column) => column).filter(isConstant);
  if (constants.length === 0 || rows.length < 3) {
    return;
  }
  const show = (isShown: boolean): void => {
    for (const row of [head, ...rows]) {
      for (const column of constants) {
        row.cells[column]?.classList.toggle("constant", !isShown);
      }
    }
  };
  const names = constants.map(
    (column) => `${textOf(head.cells[column])}: ${textOf(rows[0]?.cells[column])}`,
  );
  const box = make("input", { type: "checkbox" });
  box.addEventListener("change", () => show(box.checked));
  const words = constants.length === 1 ? "a column" : `${constants.length} columns`;
  const label = make("label", { title: names.join("\n") }, box, ` Show ${words} that do not vary`);
  tools.append(label);
  show(false);
}

function addFilter(rows: HTMLTableRowElement[], tools: HTMLElement): void {
  const input = make("input", { type: "search" });
  const count = make("span", { role: "status" });
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = [...row.cells].map(textOf).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    count.textContent = words.length > 0 ? `${shown} of ${rows.length} rows` : "";
  });
  tools.append(make("label", {}, "Filter rows ", input), count);
}

function addDownloads(
  table: HTMLTableElement,
  head: HTMLTableRowElement,
  rows: HTMLTableRowElement[],
  tools: HTMLElement,
): void {
  const title = titleOf(table.closest(".wide") ?? table);
  const names = uniqueNames([...head.cells].map((cell) => textOf(cell) || "name"));
  const values = (): Value[][] => rows.map((row) => names.map((_, column) => valueOf(row.cells[column])));
  const save = make("span", { class: "save" }, "Save as ");
  const offer = (format: string, act: () => void): void => {
    const made = button(format, act);
    made.setAttribute("aria-label", `Save the table ${title} as ${format}`);
    save.append(made, " ");
  };
  offer("CSV", () => {
    const quote = (value: Value): string =>
      /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
    const lines = [names, ...values()].map((row) => row.map(quote).join(","));
    download(fileName(title, "csv"), "text/csv", `${lines.join("\n")}\n`);
  });
  offer("JSON", () => {
    const objects = values().map((row) => Object.fromEntries(row.map((value, at) => [names[at], value])));
    download(fileName(title, "json"), "application/json", `${JSON.stringify(objects, null, 2)}\n`);
  });
  offer("Parquet", () => {
    download(fileName(title, "parquet"), "application/vnd.apache.parquet", parquet(names, values()));
  });
  tools.append(save);
}

/** Columns need names of their own. */
function uniqueNames(names: string[]): string[] {
  const seen = new Map<string, number>();
  return names.map((name) => {
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return before === 0 ? name : `${name} ${before + 1}`;
  });
}

/** A table as Parquet: a column of numbers has nulls where a cell has none. */
function parquet(names: string[], rows: Value[][]): ArrayBuffer {
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
