// Tables that can be sorted, filtered and saved.

import { button, download, fileName, make } from "./elements";
import { type Value, csv, json, parquet } from "./saving";

/** A table with fewer rows needs no filter. */
const FILTERED_ROWS_MIN = 8;
/** A table with fewer rows has no columns that are all the same by more than chance. */
const CONSTANT_ROWS_MIN = 3;

/** What a reader can do with a row. */
export interface RowAction {
  /** What the action is called; none if this row has none. */
  label(row: HTMLTableRowElement): string | undefined;
  act(row: HTMLTableRowElement): void;
}

/** Enhances every table of a part of the page. */
export function enhanceTables(root: ParentNode): void {
  root.querySelectorAll("table").forEach((table) => new LiveTable(table));
}

/** A table of the page. */
export class LiveTable {
  /** The rows in the order in which they came. */
  private rows: HTMLTableRowElement[];
  /** The title of the column by which rows are sorted. */
  private sorting: { title: string; isDown: boolean } | undefined;
  /** The titles of the columns, no two of them the same. */
  private readonly titles: string[];
  private readonly head: HTMLTableRowElement | undefined;
  private readonly body: HTMLTableSectionElement | undefined;
  private readonly tools = make("div", { class: "tools" });
  private readonly constants = make("input", { type: "checkbox" });
  private readonly constantsWords = make("span");
  private readonly constantsLabel = make("label", {}, this.constants, this.constantsWords);
  private readonly filter = make("input", { type: "search" });
  private readonly filtered = make("span", { role: "status" });
  private readonly filterLabel = make("label", {}, "Filter rows ", this.filter);
  private readonly save = make("span", { class: "save" }, "Save as ");

  /** `former` is a table of other columns that this one stands for: what the reader has set stays. */
  constructor(
    private readonly table: HTMLTableElement,
    private readonly action?: RowAction,
    former?: LiveTable,
  ) {
    this.head = table.tHead?.rows[0];
    this.body = table.tBodies[0];
    this.rows = [...(this.body?.rows ?? [])];
    this.titles = uniqueNames([...(this.head?.cells ?? [])].map((cell) => textOf(cell) || "name"));
    if (!this.head || !this.body || this.rows.length === 0) {
      return;
    }
    const wide = table.closest(".wide") ?? table;
    wide.before(this.tools);
    this.tools.append(this.save);
    this.addDownloads();
    this.constants.addEventListener("change", () => this.hideConstants());
    this.filter.addEventListener("input", () => this.applyFilter());
    makeScrollable(wide);
    if (former) {
      this.constants.checked = former.constants.checked;
      this.filter.value = former.filter.value;
      this.sorting = former.sorting;
    }
    this.showRows();
  }

  /** Shows the rows of another table; false if its columns are others. What the reader has set stays. */
  update(next: HTMLTableElement): boolean {
    const titles = (row: HTMLTableRowElement | undefined): string =>
      [...(row?.cells ?? [])].map(textOf).join("\n");
    const rows = [...(next.tBodies[0]?.rows ?? [])];
    if (!this.head || !this.body || titles(this.head) !== titles(next.tHead?.rows[0]) || rows.length === 0) {
      return false;
    }
    // A row that was here stays the same row, so that it keeps the focus.
    const before = this.rows;
    const former = new Map(before.map((row) => [keyOf(row, this.head), row]));
    this.rows = rows.map((row) => {
      const key = keyOf(row, this.head);
      const known = former.get(key);
      former.delete(key);
      return known ? changed(known, row) : row;
    });
    const kept = new Set(this.rows);
    before.filter((row) => !kept.has(row)).forEach((row) => row.remove());
    this.showRows();
    return true;
  }

  private showRows(): void {
    const { head, body } = this;
    if (!head || !body) {
      return;
    }
    if (this.rows.length > 1 && !this.table.classList.contains("sortable")) {
      this.makeSortable(head);
    }
    if (this.rows.length >= FILTERED_ROWS_MIN && !this.filterLabel.isConnected) {
      this.save.before(this.filterLabel, this.filtered);
    }
    const { action } = this;
    if (action) {
      this.rows.forEach((row) => addAction(row, action));
    }
    this.sort();
    this.applyFilter();
    this.hideConstants();
  }

  private makeSortable(head: HTMLTableRowElement): void {
    this.table.classList.add("sortable");
    [...head.cells].forEach((cell, column) => {
      const title = this.titles[column] ?? "";
      if (cell.tagName !== "TH") {
        return;
      }
      if (this.sorting?.title === title) {
        cell.setAttribute("aria-sort", this.sorting.isDown ? "descending" : "ascending");
      }
      const sort = button("", () => {
        const isDown = cell.getAttribute("aria-sort") === "ascending";
        for (const other of head.cells) {
          other.removeAttribute("aria-sort");
        }
        cell.setAttribute("aria-sort", isDown ? "descending" : "ascending");
        this.sorting = { title, isDown };
        this.sort();
      });
      sort.className = "sort";
      sort.append(...cell.childNodes);
      cell.append(sort);
    });
  }

  private sort(): void {
    const { sorting, body } = this;
    let ordered = this.rows;
    const column = sorting ? this.titles.indexOf(sorting.title) : -1;
    if (sorting && column >= 0) {
      ordered = this.rows
        .map((row) => ({ row, value: valueOf(row.cells[column]) }))
        .sort((one, other) => {
          // What has no number stands last in either direction.
          const isMixed = typeof one.value !== typeof other.value;
          const order = compare(one.value, other.value);
          return sorting.isDown && !isMixed ? -order : order;
        })
        .map(({ row }) => row);
    }
    // Only rows that are elsewhere are moved: what moves loses the focus.
    ordered.forEach((row, place) => {
      if (body && body.rows[place] !== row) {
        body.insertBefore(row, body.rows[place] ?? null);
      }
    });
  }

  private applyFilter(): void {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of this.rows) {
      const text = [...row.cells].map(textOf).join(" ").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    const count = words.length > 0 ? `${shown} of ${this.rows.length} rows` : "";
    if (this.filtered.textContent !== count) {
      this.filtered.textContent = count;
    }
  }

  /** Columns that say the same in every row are hidden until somebody asks for them. */
  private hideConstants(): void {
    const { head, rows } = this;
    if (!head) {
      return;
    }
    const isConstant = (column: number): boolean =>
      column > 0 && rows.every((row) => textOf(row.cells[column]) === textOf(rows[0]?.cells[column]));
    const columns = [...head.cells].map((_, column) => column);
    const constants = rows.length < CONSTANT_ROWS_MIN ? [] : columns.filter(isConstant);
    const hidden = new Set(this.constants.checked ? [] : constants);
    for (const row of [head, ...rows]) {
      columns.forEach((column) => row.cells[column]?.classList.toggle("constant", hidden.has(column)));
    }
    if (constants.length === 0) {
      this.constantsLabel.remove();
      return;
    }
    const names = constants.map((column) => `${textOf(head.cells[column])}: ${textOf(rows[0]?.cells[column])}`);
    const count = constants.length === 1 ? "a column that does" : `${constants.length} columns that do`;
    this.constantsLabel.title = names.join("\n");
    this.constantsWords.textContent = ` Show ${count} not vary`;
    if (!this.constantsLabel.isConnected) {
      this.tools.prepend(this.constantsLabel);
    }
  }

  private addDownloads(): void {
    const title = titleOf(this.table);
    const values = (): Value[][] =>
      this.rows.map((row) => this.titles.map((_, column) => valueOf(row.cells[column])));
    const offer = (format: string, type: string, make: (names: string[], rows: Value[][]) => BlobPart): void => {
      const made = button(format, () => {
        download(fileName(title, format.toLowerCase()), type, make(this.titles, values()));
      });
      made.setAttribute("aria-label", `Save the table ${title} as ${format}`);
      this.save.append(made, " ");
    };
    offer("CSV", "text/csv", csv);
    offer("JSON", "application/json", json);
    offer("Parquet", "application/vnd.apache.parquet", parquet);
  }
}

/** What a row is of: its name, and its sizes in pages. */
function keyOf(row: HTMLTableRowElement, head: HTMLTableRowElement | undefined): string {
  const isKey = (_: unknown, column: number): boolean =>
    column === 0 || textOf(head?.cells[column]).endsWith("pages");
  return [...row.cells].filter(isKey).map(textOf).join("\n");
}

/** A row, changed to what another row says. */
function changed(row: HTMLTableRowElement, next: HTMLTableRowElement): HTMLTableRowElement {
  [...next.cells].forEach((cell, column) => {
    const own = row.cells[column];
    if (own && (textOf(own) !== textOf(cell) || own.dataset["value"] !== cell.dataset["value"])) {
      own.replaceChildren(...cell.childNodes);
    }
    if (own) {
      own.className = cell.className;
      if (cell.dataset["value"] !== undefined) {
        own.dataset["value"] = cell.dataset["value"];
      }
    }
  });
  return row;
}

/** Makes the name of a row a button, and the whole row something that can be clicked. */
function addAction(row: HTMLTableRowElement, action: RowAction): void {
  const cell = row.cells[0];
  const label = action.label(row);
  if (!cell || label === undefined || cell.querySelector("button")) {
    return;
  }
  const open = button("", () => action.act(row));
  open.className = "open";
  open.setAttribute("aria-label", label);
  open.append(...cell.childNodes);
  cell.append(open);
  row.classList.add("opens");
  row.addEventListener("click", (event) => {
    const isSelecting = String(getSelection()) !== "";
    if (!isSelecting && !(event.target instanceof Element && event.target.closest("button"))) {
      action.act(row);
    }
  });
}

/** What a table is called, with its number among those that are called so: no two regions are called the same. */
function labelOf(wide: Element): string {
  const title = titleOf(wide);
  const same = [...document.querySelectorAll(".wide")].filter((other) => titleOf(other) === title);
  return same.length > 1 ? `${title}, table ${same.indexOf(wide) + 1}` : title;
}

/** A region that scrolls takes the keyboard's focus, so that keys scroll it. */
function makeScrollable(wide: Element): void {
  const update = (): void => {
    const isScrolled = wide.scrollWidth > wide.clientWidth;
    if (isScrolled) {
      wide.setAttribute("tabindex", "0");
      wide.setAttribute("role", "region");
      wide.setAttribute("aria-label", labelOf(wide));
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
  const isBefore = (heading: Element): boolean =>
    (heading.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0;
  const headings = [...document.querySelectorAll("h1, h2")].filter(isBefore);
  return headings.at(-1)?.textContent ?? document.title;
}

/** The text of a cell. */
export function textOf(cell: Element | undefined): string {
  return cell?.textContent?.trim() ?? "";
}

/** The value of a cell: the number that its text is rounded from, if it has one. */
export function valueOf(cell: HTMLTableCellElement | undefined): Value {
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

/** Columns need names of their own. */
function uniqueNames(names: string[]): string[] {
  const seen = new Map<string, number>();
  return names.map((name) => {
    const before = seen.get(name) ?? 0;
    seen.set(name, before + 1);
    return before === 0 ? name : `${name} ${before + 1}`;
  });
}
