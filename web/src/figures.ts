// Figures: charts of which the reader chooses one, with a legend of switches.

import { Chart, type Style } from "./chart";
import type { Picking } from "./cursor";
import { button, make } from "./elements";

/** What the reader can choose: charts under one name. */
interface Choice {
  element: HTMLElement;
  name: string;
  charts: Chart[];
}

/** Shows all figures of a part of the page. */
export function showFigures(root: ParentNode): void {
  root.querySelectorAll("figure").forEach((figure) => new Figure(figure));
}

/** A figure of the page. */
export class Figure {
  private choices: Choice[] = [];
  /** The name of what the reader sees. */
  private shown = "";
  /** What the reader has made stand out, or not. */
  private readonly chosen = new Map<string, boolean>();
  private readonly tools = make("div", { class: "tools" });
  private readonly select = make("select");
  private readonly switch = make("label", {}, "Show ", this.select);
  private readonly keys = make("ul", { class: "keys" });
  /** The looks that the keys were made of. */
  private keysOf = "";
  private readonly hide = make("input", { type: "checkbox" });
  private readonly rest = make("label", { class: "rest" }, this.hide, " Hide grey series");

  constructor(
    private readonly element: HTMLElement,
    private readonly picking?: Picking,
  ) {
    this.takeChoices(choicesOf(element));
    element.querySelector("figcaption")?.after(this.tools);
    this.tools.append(this.saves());
    this.select.addEventListener("change", () => this.show(this.select.value));
    this.hide.addEventListener("change", () => this.emphasise());
    this.showTools();
  }

  /** Shows what another figure has; what the reader has chosen stays. */
  update(next: HTMLElement): void {
    const caption = next.querySelector("figcaption");
    const own = this.element.querySelector("figcaption");
    if (caption && own && own.textContent !== caption.textContent) {
      own.textContent = caption.textContent;
    }
    this.takeChoices(choicesOf(next));
    this.showTools();
    if (this.chosen.size > 0 || this.hide.checked) {
      this.emphasise();
    }
  }

  remove(): void {
    this.choices.flatMap(({ charts }) => charts).forEach((chart) => chart.remove());
  }

  private get charts(): Chart[] {
    return this.choices.flatMap(({ charts }) => charts);
  }

  /** Makes these the choices: those that are here under the same name are changed in place. */
  private takeChoices(elements: HTMLElement[]): void {
    const former = new Map(this.choices.map((choice) => [choice.name, choice]));
    this.choices = elements.map((element) => {
      const name = element.dataset["name"] ?? "";
      const known = former.get(name);
      former.delete(name);
      const choice = known ?? { element, name, charts: [] };
      if (known) {
        known.element.classList.toggle("several", element.classList.contains("several"));
      }
      const charts = [...element.querySelectorAll<HTMLElement>(".chart")];
      charts.forEach((chart, place) => {
        const drawn = choice.charts[place];
        if (drawn) {
          drawn.update(chart);
        } else {
          choice.element.append(chart);
          choice.charts.push(new Chart(chart, name, this.picking));
        }
      });
      choice.charts.splice(charts.length).forEach((chart) => chart.remove());
      return choice;
    });
    for (const choice of former.values()) {
      choice.charts.forEach((chart) => chart.remove());
      choice.element.remove();
    }
    // Only what is new or elsewhere is moved: what moves loses the focus.
    let after: Element | null = this.keys.parentNode === this.element ? this.keys : null;
    for (const { element } of [...this.choices].reverse()) {
      if (element.parentNode !== this.element || element.nextElementSibling !== after) {
        this.element.insertBefore(element, after);
      }
      after = element;
    }
  }

  private showTools(): void {
    const names = this.choices.map(({ name }) => name);
    const options = [...this.select.options].map(({ value }) => value);
    if (names.join("\n") !== options.join("\n")) {
      this.select.replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    }
    const hasSwitch = names.length > 1;
    this.element.classList.toggle("switched", hasSwitch);
    if (hasSwitch && !this.switch.isConnected) {
      this.tools.prepend(this.switch);
    } else if (!hasSwitch) {
      this.switch.remove();
    }
    this.show(names.includes(this.shown) ? this.shown : (names[0] ?? ""));
    this.showKeys();
  }

  private show(name: string): void {
    this.shown = name;
    this.select.value = name;
    for (const choice of this.choices) {
      choice.element.classList.toggle("is-off", choice.name !== name);
    }
  }

  private saves(): HTMLElement {
    const saves = make("span", { class: "save" }, "Save as ");
    for (const format of ["svg", "png"] as const) {
      const save = button(format.toUpperCase(), () => {
        const shown = this.choices.find(({ name }) => name === this.shown);
        shown?.charts.forEach((chart) => void chart.save(format));
      });
      save.setAttribute("aria-label", `Save the chart as ${format.toUpperCase()}`);
      saves.append(save, " ");
    }
    return saves;
  }

  /** The looks of all charts with a legend, each name once. */
  private get styles(): Style[] {
    const styles = new Map<string, Style>();
    for (const style of this.charts.filter(({ hasLegend }) => hasLegend).flatMap(({ styles }) => styles)) {
      const known = styles.get(style.name);
      // A name stands out if it does in one of the charts.
      styles.set(style.name, { ...(known ?? style), emphasised: style.emphasised || known?.emphasised === true });
    }
    return [...styles.values()];
  }

  private isOut(style: Style): boolean {
    return this.chosen.get(style.name) ?? style.emphasised;
  }

  /** Names with their looks: each lets its line stand out, or not. */
  private showKeys(): void {
    const styles = this.styles;
    if (styles.length < 2) {
      this.keys.remove();
      this.rest.remove();
      return;
    }
    const source = JSON.stringify(styles);
    if (this.keysOf !== source) {
      this.keysOf = source;
      const focused = this.keys.contains(document.activeElement) ? document.activeElement?.textContent : null;
      this.keys.replaceChildren(...styles.map((style) => make("li", {}, this.toggle(style))));
      const again = [...this.keys.querySelectorAll("button")].find((one) => one.textContent === focused);
      again?.focus({ preventScroll: true });
    }
    if (!this.keys.isConnected || !this.rest.isConnected) {
      this.element.append(this.keys, this.rest);
    }
  }

  private toggle(style: Style): HTMLButtonElement {
    const toggle = make("button", { type: "button", "aria-pressed": String(this.isOut(style)) });
    toggle.append(key(style), style.name);
    toggle.addEventListener("click", () => {
      const isPressed = !this.isOut(style);
      this.chosen.set(style.name, isPressed);
      toggle.setAttribute("aria-pressed", String(isPressed));
      this.emphasise();
    });
    return toggle;
  }

  private emphasise(): void {
    const names = new Set(this.styles.filter((style) => this.isOut(style)).map(({ name }) => name));
    this.charts.forEach((chart) => chart.emphasise(names, this.hide.checked));
  }
}

function choicesOf(figure: HTMLElement): HTMLElement[] {
  return [...figure.querySelectorAll<HTMLElement>(":scope > .charts")];
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
