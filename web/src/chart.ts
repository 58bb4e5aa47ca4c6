// One chart: its specification is shown by Vega in place of the drawing beside it.

import embed, { type Result, type VisualizationSpec } from "vega-embed";

import { type Picking, Cursor } from "./cursor";
import { download, fileName, make } from "./elements";

/** What is not emphasised. */
const GREY = "#9aa5af";
const FAINT = 0.5;
/** Below this height of the page's view, charts are drawn before they are scrolled to. */
const AHEAD = "400px";
/** What the copy in which a span is chosen takes, with the axes of both, in pixels. */
const OVERVIEW = 140;
/** Vega tells of errors only. */
const ERRORS = 1;
/** What a reader has zoomed to. */
const ZOOMED = ["zoom_x", "zoom_y", "span_x"];

/** How a line, bar or point looks: its own colour, whether or not it stands out now. */
export interface Style {
  name: string;
  colour: string;
  marker: string;
  dashes: number[];
  emphasised: boolean;
}

export type Specification = Record<string, any>;

/** Which styles stand out. */
interface Emphasis {
  names: Set<string>;
  isRestHidden: boolean;
}

const all = new Set<Chart>();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  all.forEach((chart) => chart.redraw());
});

/** A chart of the page. */
export class Chart {
  specification: Specification = {};
  /** What the specification was read from. */
  private source = "";
  private readonly place = make("div", { class: "live" });
  private readonly cursor: Cursor | undefined;
  private readonly observers: (IntersectionObserver | ResizeObserver)[];
  private emphasis: Emphasis | undefined;
  private drawn: Result | undefined;
  private isNear = false;
  private isStale = true;
  private isDrawing = false;
  private width = 0;

  /** `choice` is what the reader chooses to see this chart. */
  constructor(
    private readonly element: HTMLElement,
    choice: string,
    picking?: Picking,
  ) {
    element.append(this.place);
    if (picking) {
      this.cursor = new Cursor(this.place, choice, picking);
    }
    this.read();
    const sight = new IntersectionObserver(
      (entries) => {
        this.isNear = entries.at(-1)?.isIntersecting === true;
        void this.draw();
      },
      { rootMargin: AHEAD },
    );
    const size = new ResizeObserver(() => void this.draw());
    this.observers = [sight, size];
    this.observers.forEach((observer) => observer.observe(element));
    all.add(this);
  }

  get styles(): Style[] {
    return this.specification["usermeta"]?.styles ?? [];
  }

  get hasLegend(): boolean {
    return this.specification["usermeta"]?.hasLegend === true;
  }

  /** Shows what another element has, where this one is; the reader's zoom stays. */
  update(next: HTMLElement): void {
    if (sourceOf(next) === this.source) {
      return;
    }
    [...this.element.children].filter((child) => child !== this.place).forEach((child) => child.remove());
    this.element.prepend(...next.childNodes);
    this.read();
    this.redraw();
  }

  /** Ends it and removes it from the page. */
  remove(): void {
    all.delete(this);
    this.observers.forEach((observer) => observer.disconnect());
    this.drawn?.finalize();
    this.drawn = undefined;
    this.element.remove();
  }

  /** Draws it anew, now or when it is near the view. */
  redraw(): void {
    this.isStale = true;
    void this.draw();
  }

  /** Lets some of the styles stand out, and hides the others or makes them grey. */
  emphasise(names: Set<string>, isRestHidden: boolean): void {
    this.emphasis = { names: new Set(names), isRestHidden };
    this.redraw();
  }

  async save(format: "svg" | "png"): Promise<void> {
    const view = this.drawn?.view;
    if (!view) {
      return;
    }
    const name = fileName(String(this.specification["title"] ?? ""), format);
    if (format === "svg") {
      download(name, "image/svg+xml", await view.toSVG());
    } else {
      const address = await view.toImageURL("png", 2);
      make("a", { href: address, download: name }).click();
    }
  }

  private read(): void {
    this.source = sourceOf(this.element);
    this.specification = JSON.parse(this.source || "{}");
    // The drawing waits in the space that the chart will take, so that nothing moves.
    const { height, vconcat } = this.specification;
    const pixels = vconcat ? Number(vconcat[0]?.height) + OVERVIEW : Number(height);
    if (Number.isFinite(pixels) && !this.element.classList.contains("is-live")) {
      this.element.style.setProperty("--height", `${pixels}px`);
      this.element.classList.add("waits");
    }
  }

  /** Draws the chart, if it is near the view and its width or its looks are others than before. */
  private async draw(): Promise<void> {
    if (this.isDrawing) {
      // The drawing that goes on looks again when it ends.
      return;
    }
    this.isDrawing = true;
    try {
      while (this.isNear) {
        const width = this.element.clientWidth;
        if (width === 0 || (!this.isStale && width === this.width)) {
          break;
        }
        this.isStale = false;
        this.width = width;
        await this.drawNow(width);
      }
    } catch (error) {
      // The drawing stays.
      this.element.classList.remove("waits");
      console.error(error);
    } finally {
      this.isDrawing = false;
    }
  }

  private async drawNow(width: number): Promise<void> {
    // The new one is made beside the old one, and takes its place when it is complete.
    const place = make("div");
    const result = await embed(place, this.sized(width), {
      actions: false,
      renderer: "svg",
      // No expression is compiled, so that a page may forbid scripts from texts.
      ast: true,
      defaultStyle: false,
      logLevel: ERRORS,
      config: colours(),
      tooltip: { theme: isDark() ? "dark" : "light", disableDefaultStyle: true },
    });
    await keepZoom(this.drawn, result);
    if (!all.has(this)) {
      result.finalize();
      return;
    }
    // The caption names the chart; what a screen reader needs more of is in the tables.
    place.querySelector("svg")?.setAttribute("aria-hidden", "true");
    for (const name of ["role", "aria-roledescription", "aria-label"]) {
      place.removeAttribute(name);
    }
    this.drawn?.finalize();
    this.drawn = result;
    this.place.replaceChildren(place);
    this.cursor?.show(result.view, this.specification, this.hidden());
    this.element.classList.add("is-live");
    this.element.classList.remove("waits");
  }

  /** The names that are not drawn. */
  private hidden(): Set<string> {
    const shown = this.emphasis?.isRestHidden ? this.emphasis.names : undefined;
    return new Set(shown ? this.styles.map(({ name }) => name).filter((name) => !shown.has(name)) : []);
  }

  /** The specification, as wide as the page lets it be, without what the page says beside it. */
  private sized(width: number): VisualizationSpec {
    const copy: Specification = structuredClone(this.specification);
    delete copy["title"];
    const parts: Specification[] = copy["vconcat"] ?? [copy];
    for (const part of parts) {
      if (copy["vconcat"]) {
        // What stands beside an axis is not part of this width.
        part["width"] = Math.max(120, width - 90);
      } else {
        part["width"] = width;
        part["autosize"] = { type: "fit", contains: "padding" };
      }
    }
    if (this.emphasis) {
      setEmphasis(copy, this.styles, this.emphasis);
    }
    if (this.hasLegend) {
      dropLegends(copy);
    }
    return copy as VisualizationSpec;
  }
}

function sourceOf(element: HTMLElement): string {
  return element.querySelector('script[type="application/json"]')?.textContent ?? "";
}

/** Zooms to what the reader has zoomed to in a former drawing. */
async function keepZoom(former: Result | undefined, next: Result): Promise<void> {
  const of = (result: Result, name: string): unknown => {
    try {
      return result.view.signal(name);
    } catch {
      return undefined;
    }
  };
  const changed = ZOOMED.filter((name) => {
    const value = former && of(former, name);
    if (!Array.isArray(value) || value.length === 0 || of(next, name) === undefined) {
      return false;
    }
    next.view.signal(name, value);
    return true;
  });
  if (changed.length > 0) {
    await next.view.runAsync();
  }
}

/** Calls for every part of a specification but its data. */
function visit(part: any, act: (part: any) => void): void {
  if (Array.isArray(part)) {
    part.forEach((one) => visit(one, act));
  } else if (part !== null && typeof part === "object") {
    act(part);
    for (const [key, value] of Object.entries(part)) {
      if (key !== "data" && key !== "datasets" && key !== "usermeta") {
        visit(value, act);
      }
    }
  }
}

function setEmphasis(specification: Specification, styles: Style[], emphasis: Emphasis): void {
  const colours = new Map(styles.map(({ name, colour }) => [name, colour]));
  const { names, isRestHidden } = emphasis;
  visit(specification, (part) => {
    const color = part.encoding?.color;
    if (color?.field !== "name") {
      return;
    }
    const range = (of: (name: string) => unknown): unknown[] => color.scale.domain.map(of);
    color.scale.range = range((name) => (names.has(name) ? colours.get(name) : GREY));
    part.encoding.opacity.scale.range = range((name) => (names.has(name) ? 1 : FAINT));
    if (isRestHidden) {
      part.transform = [{ filter: { field: "name", oneOf: [...names] } }];
    }
  });
}

/** The legend is part of the page, where it can be used by keyboard. */
function dropLegends(specification: Specification): void {
  visit(specification, (part) => {
    for (const channel of ["color", "opacity", "shape", "strokeDash"]) {
      if (part.encoding?.[channel]?.field === "name") {
        part.encoding[channel].legend = null;
      }
    }
  });
}

function isDark(): boolean {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colours of the page. */
function colours(): Record<string, unknown> {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(name).trim();
  const [ink, line] = [of("--text"), of("--strong-line")];
  const font = "system-ui, sans-serif";
  return {
    background: "transparent",
    font,
    view: { stroke: null },
    axis: {
      labelColor: ink,
      titleColor: ink,
      gridColor: of("--line"),
      domainColor: line,
      tickColor: line,
      labelFontSize: 12,
      titleFontSize: 13,
      titleFontWeight: "normal",
    },
    legend: { labelColor: ink, titleColor: ink, titleFontWeight: "normal" },
    text: { color: ink, fontSize: 12 },
    rule: { color: ink },
    tick: { color: ink },
    // Marks are many and their names are in the tables.
    mark: { aria: false },
  };
}
