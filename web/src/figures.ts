// Charts: the specification beside each drawing is shown by Vega in place of the drawing.

import embed, { type Result, type VisualizationSpec } from "vega-embed";

import { button, download, fileName, make } from "./elements";

/** What is not emphasised. */
const GREY = "#9aa5af";
const FAINT = 0.5;
/** Below this height of the page's view, charts are drawn before they are scrolled to. */
const AHEAD = "400px";

/** How a line, bar or point looks: its own colour, whether or not it stands out now. */
interface Style {
  name: string;
  colour: string;
  marker: string;
  dashes: number[];
  emphasised: boolean;
}

type Specification = Record<string, any>;

/** A chart of the page. */
class Chart {
  readonly specification: Specification;
  private readonly place = make("div", { class: "live" });
  private drawn: Result | undefined;
  private isWanted = false;
  private width = 0;
  /** The drawing that goes on; the next one waits for it. */
  private going: Promise<void> = Promise.resolve();

  constructor(private readonly element: HTMLElement) {
    const data = element.querySelector('script[type="application/json"]');
    this.specification = JSON.parse(data?.textContent ?? "{}");
    element.append(this.place);
    new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) {
          this.isWanted = true;
          void this.draw();
        }
      },
      { rootMargin: AHEAD },
    ).observe(element);
    new ResizeObserver(() => void this.draw()).observe(element);
  }

  get styles(): Style[] {
    return this.specification["usermeta"]?.styles ?? [];
  }

  get hasLegend(): boolean {
    return this.specification["usermeta"]?.hasLegend === true;
  }

  /** Draws the chart, if it is near the view and its width or its looks are others than before. */
  draw(isChanged = false): Promise<void> {
    this.going = this.going.then(() => this.drawNow(isChanged));
    return this.going;
  }

  private async drawNow(isChanged: boolean): Promise<void> {
    const width = this.element.clientWidth;
    if (!this.isWanted || width === 0 || (!isChanged && width === this.width)) {
      return;
    }
    this.width = width;
    try {
      const result = await embed(this.place, this.sized(width), {
        actions: false,
        renderer: "svg",
        config: colours(),
        tooltip: { theme: isDark() ? "dark" : "light" },
      });
      this.drawn?.finalize();
      this.drawn = result;
      // The caption names the chart; what a screen reader needs more of is in the tables.
      this.place.querySelector("svg")?.setAttribute("aria-hidden", "true");
      this.place.firstElementChild?.removeAttribute("role");
      this.element.classList.add("is-live");
    } catch (error) {
      // The drawing stays.
      console.error(error);
    }
  }

  /** Lets some of the styles stand out, and hides the others or makes them grey. */
  emphasise(names: Set<string>, isRestHidden: boolean): void {
    const styles = new Map(this.styles.map((style) => [style.name, style]));
    const visit = (part: any): void => {
      if (Array.isArray(part)) {
        part.forEach(visit);
        return;
      }
      if (part === null || typeof part !== "object") {
        return;
      }
      const color = part.encoding?.color;
      if (color?.field === "name") {
        color.scale.range = color.scale.domain.map((name: string) =>
          names.has(name) ? styles.get(name)?.colour : GREY,
        );
        part.encoding.opacity.scale.range = color.scale.domain.map((name: string) =>
          names.has(name) ? 1 : FAINT,
        );
        part.transform = isRestHidden
          ? [{ filter: { field: "name", oneOf: [...names] } }]
          : undefined;
      }
      for (const [key, value] of Object.entries(part)) {
        if (key !== "data" && key !== "usermeta") {
          visit(value);
        }
      }
    };
    visit(this.specification);
    void this.draw(true);
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
        part["width"] = "container";
        part["autosize"] = { type: "fit", contains: "padding" };
      }
    }
    if (this.hasLegend) {
      dropLegends(copy);
    }
    return copy as VisualizationSpec;
  }
}

/** The legend is part of the page, where it can be used by keyboard. */
function dropLegends(part: any): void {
  if (Array.isArray(part)) {
    part.forEach(dropLegends);
  } else if (part !== null && typeof part === "object") {
    for (const channel of ["color", "opacity", "shape", "strokeDash"]) {
      if (part.encoding?.[channel]?.field === "name") {
        part.encoding[channel].legend = null;
      }
    }
    Object.entries(part).forEach(([key, value]) => key !== "data" && dropLegends(value));
  }
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

/** Shows all charts of the page, with switches and legends. */
export function showFigures(): void {
  const all: Chart[] = [];
  for (const figure of document.querySelectorAll("figure")) {
    const choices = [...figure.querySelectorAll<HTMLElement>(":scope > .charts")];
    const charts = choices.map((choice) =>
      [...choice.querySelectorAll<HTMLElement>(".chart")].map((chart) => new Chart(chart)),
    );
    all.push(...charts.flat());
    const tools = make("div", { class: "tools" });
    figure.querySelector("figcaption")?.after(tools);
    let shown = 0;
    if (choices.length > 1) {
      addSwitch(figure, tools, choices, (place) => {
        shown = place;
      });
    }
    const saves = make("span", { class: "save" }, "Save as ");
    for (const format of ["svg", "png"] as const) {
      const save = button(format.toUpperCase(), () => {
        charts[shown]?.forEach((chart) => void chart.save(format));
      });
      save.setAttribute("aria-label", `Save the chart as ${format.toUpperCase()}`);
      saves.append(save, " ");
    }
    tools.append(saves);
    addLegend(figure, charts.flat());
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    all.forEach((chart) => void chart.draw(true));
  });
}

/** A list of the choices; the page shows the chosen one. */
function addSwitch(
  figure: HTMLElement,
  tools: HTMLElement,
  choices: HTMLElement[],
  tell: (place: number) => void,
): void {
  const select = make("select");
  choices.forEach((choice, place) => {
    select.append(make("option", { value: String(place) }, choice.dataset["name"] ?? ""));
  });
  const show = (): void => {
    const place = Number(select.value);
    choices.forEach((choice, at) => choice.classList.toggle("is-off", at !== place));
    tell(place);
  };
  select.addEventListener("change", show);
  tools.append(make("label", {}, "Show ", select));
  figure.classList.add("switched");
  show();
}

/** Names with their looks: each lets its line stand out, or not. */
function addLegend(figure: HTMLElement, charts: Chart[]): void {
  const styles = new Map<string, Style>();
  for (const chart of charts.filter((chart) => chart.hasLegend)) {
    chart.styles.forEach((style) => styles.has(style.name) || styles.set(style.name, style));
  }
  if (styles.size < 2) {
    return;
  }
  const isOut = (name: string): boolean =>
    charts.some((chart) => chart.styles.some((style) => style.name === name && style.emphasised));
  const names = new Set([...styles.keys()].filter(isOut));
  const hide = make("input", { type: "checkbox" });
  const apply = (): void => charts.forEach((chart) => chart.emphasise(names, hide.checked));
  const list = make("ul", { class: "keys" });
  for (const style of styles.values()) {
    const toggle = make("button", { type: "button", "aria-pressed": String(names.has(style.name)) });
    toggle.append(key(style), style.name);
    toggle.addEventListener("click", () => {
      const isPressed = !names.has(style.name);
      if (isPressed) {
        names.add(style.name);
      } else {
        names.delete(style.name);
      }
      toggle.setAttribute("aria-pressed", String(isPressed));
      apply();
    });
    list.append(make("li", {}, toggle));
  }
  hide.addEventListener("change", apply);
  figure.append(list, make("label", { class: "rest" }, hide, " Hide what is grey"));
}

/** A piece of the line with its marker. */
function key(style: Style): SVGSVGElement {
  const space = "http://www.w3.org/2000/svg";
  const part = (name: string, attributes: Record<string, string>): SVGElement => {
    const element = document.createElementNS(space, name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    return element;
  };
  const svg = part("svg", { viewBox: "0 0 28 12", width: "28", height: "12", "aria-hidden": "true" });
  const line = part("line", { x1: "0", x2: "28", y1: "6", y2: "6", stroke: style.colour, "stroke-width": "2" });
  line.setAttribute("stroke-dasharray", style.dashes.join(" "));
  const shapes: Record<string, string> = {
    circle: "M10.4 6a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0Z",
    square: "M10.6 2.6h6.8v6.8h-6.8Z",
    diamond: "M14 1L18.2 6L14 11L9.8 6Z",
    "triangle-up": "M14 1.4L18.6 9.8H9.4Z",
    "triangle-down": "M14 10.6L18.6 2.2H9.4Z",
    "triangle-right": "M18.6 6L10.2 1.4V10.6Z",
    "triangle-left": "M9.4 6L17.8 1.4V10.6Z",
    cross: "M12.4 1.4h3.2v3h3v3.2h-3v3h-3.2v-3h-3V4.4h3Z",
  };
  svg.append(line, part("path", { d: shapes[style.marker] ?? shapes["circle"] ?? "", fill: style.colour }));
  return svg as SVGSVGElement;
}
