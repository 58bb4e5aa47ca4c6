// A part of the page that a server makes and makes again: it is changed in place, and the reader's choices stay.

import { addCopyButtons } from "./copy";
import type { Picking } from "./cursor";
import { make } from "./elements";
import { Figure } from "./figures";
import { LiveTable, type RowAction } from "./tables";

/** What a reader can do with what a fragment shows. */
export interface Actions {
  picking?: Picking;
  rows?: RowAction;
}

/** One block of a fragment. */
interface Part {
  place: HTMLElement;
  /** What it was made from. */
  source: string;
  figure?: Figure;
  table?: LiveTable;
}

/** Shows what a server sends as HTML. */
export class Fragment {
  private parts = new Map<string, Part>();
  /** What is not shown now, and comes again as the reader has set it. */
  private readonly parked = new Map<string, Part>();

  constructor(
    private readonly place: HTMLElement,
    private readonly actions: Actions = {},
  ) {}

  /** Shows this in place of what was shown. It must come from our own server, which escapes all names. */
  show(html: string): void {
    const template = make("template");
    template.innerHTML = html;
    const next = keyed(template.content);
    const keys = new Set(next.map(([key]) => key));
    for (const [key, part] of this.parts) {
      if (!keys.has(key)) {
        part.place.remove();
        this.parked.set(key, part);
      }
    }
    const former = this.parts;
    this.parts = new Map();
    let last: Element | null = null;
    for (const [key, element] of next) {
      const known = this.parked.get(key) ?? former.get(key);
      this.parked.delete(key);
      const part: Part = known ?? { place: make("div", { class: "part" }), source: "" };
      const after: Element | null = last ? last.nextElementSibling : this.place.firstElementChild;
      // Only what is new or elsewhere is moved: what moves loses the focus.
      if (after !== part.place) {
        this.place.insertBefore(part.place, after);
      }
      this.parts.set(key, part);
      this.fill(part, element);
      last = part.place;
    }
  }

  /** Ends all that it shows. */
  clear(): void {
    this.show("");
    this.parked.forEach((part) => part.figure?.remove());
    this.parked.clear();
  }

  private fill(part: Part, next: Element): void {
    const source = next.outerHTML;
    if (part.source === source) {
      return;
    }
    part.source = source;
    if (next instanceof HTMLElement && next.tagName === "FIGURE") {
      if (part.figure) {
        part.figure.update(next);
      } else {
        part.place.replaceChildren(next);
        part.figure = new Figure(next, this.actions.picking);
      }
      return;
    }
    const table = next.querySelector("table");
    if (table && part.table?.update(table)) {
      return;
    }
    part.place.replaceChildren(next);
    if (table) {
      part.table = new LiveTable(table, this.actions.rows, part.table);
    } else {
      addCopyButtons(part.place);
    }
  }
}

/** The blocks, each with a name that the same block has in another version. */
function keyed(content: DocumentFragment): [string, Element][] {
  const counts = new Map<string, number>();
  let heading = "";
  return [...content.children].map((element) => {
    const text = element.textContent ?? "";
    if (element.tagName === "H2") {
      heading = text;
      // Two fragments of one page may have the same headings.
      element.removeAttribute("id");
    }
    const caption = element.querySelector("figcaption")?.textContent ?? "";
    const kind = `${heading}\n${element.tagName}\n${caption}`;
    const count = counts.get(kind) ?? 0;
    counts.set(kind, count + 1);
    return [`${kind}\n${count}`, element];
  });
}
