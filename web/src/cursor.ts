// The points of a chart that a reader can choose, by a click or by keys.

import type { View } from "vega";

import type { Specification } from "./chart";
import { make } from "./elements";

/** A click that is farther from every point chooses none, in pixels. */
const REACH = 28;

/** A mark of a chart. */
export interface Picked {
  /** Its row of the chart's data. */
  datum: Record<string, unknown>;
  /** The title of the chart, and of what the reader chose to see it. */
  title: string;
  choice: string;
  /** The titles of the axes. */
  x: string;
  y: string;
}

/** What a reader does with marks. */
export interface Picking {
  /** What a mark is called; none if it cannot be chosen. */
  label(picked: Picked): string | undefined;
  act(picked: Picked): void;
}

/** Where a mark is drawn. */
interface Place {
  picked: Picked;
  label: string;
  x: number;
  y: number;
  /** How far it reaches to each side, for cells and bars. */
  halfWidth: number;
  halfHeight: number;
}

/** Lets the reader choose points of a chart. */
export class Cursor {
  private view: View | undefined;
  private specification: Specification = {};
  private places: Place[] | undefined;
  private hidden = new Set<string>();
  /** The label of the point where the keys are. */
  private at: string | undefined;
  private readonly ring = make("div", { class: "ring", "aria-hidden": "true" });
  private readonly words = make("span", { class: "unseen", role: "status" });

  constructor(
    private readonly element: HTMLElement,
    private readonly choice: string,
    private readonly picking: Picking,
  ) {
    element.classList.add("picks");
    element.addEventListener("click", (event) => {
      const place = this.nearest(event);
      if (place) {
        this.picking.act(place.picked);
      }
    });
    element.addEventListener("pointermove", (event) => {
      element.classList.toggle("is-over", this.nearest(event) !== undefined);
    });
    element.addEventListener("keydown", (event) => this.press(event));
    element.addEventListener("blur", () => (this.ring.hidden = true));
    this.ring.hidden = true;
  }

  /** Tells what is drawn now. */
  show(view: View, specification: Specification, hidden: Set<string>): void {
    this.view = view;
    this.specification = specification;
    this.hidden = hidden;
    this.places = undefined;
    this.element.append(this.ring, this.words);
    const title = specification["title"] ?? "Chart";
    const attributes = {
      role: "application",
      tabindex: "0",
      "aria-label": `${title}. Arrow keys go from point to point, Enter shows its details.`,
    };
    for (const [name, value] of Object.entries(attributes)) {
      if (this.found().length > 0) {
        this.element.setAttribute(name, value);
      } else {
        this.element.removeAttribute(name);
      }
    }
    if (!this.ring.hidden) {
      this.mark(this.found().find((place) => place.label === this.at));
    }
  }

  private found(): Place[] {
    this.places ??= this.view ? this.locate(this.view) : [];
    return this.places;
  }

  private locate(view: View): Place[] {
    const [x, y] = [scaleOf(view, "x"), scaleOf(view, "y")];
    const layers: Specification[] = this.specification["layer"] ?? [];
    if (!x || !y) {
      return [];
    }
    const titles = { title: String(this.specification["title"] ?? ""), choice: this.choice };
    const [left, top] = view.origin();
    const places = new Map<string, Place>();
    for (const layer of layers) {
      const axes = { x: axisTitle(layer, "x"), y: axisTitle(layer, "y") };
      for (const datum of rowsOf(this.specification, layer)) {
        const picked = { datum, ...titles, ...axes };
        const label = this.hidden.has(String(datum["name"])) ? undefined : this.picking.label(picked);
        if (label === undefined || places.has(label)) {
          continue;
        }
        const isBar = layer["mark"]?.type === "bar";
        const [at, halfWidth] = middle(x, datum["x"]);
        const [up, halfHeight] = middle(y, datum["y"]);
        if (Number.isFinite(at) && Number.isFinite(up)) {
          const place = { picked, label, x: at + left, y: up + top, halfWidth, halfHeight };
          places.set(label, isBar ? { ...place, halfWidth: Infinity } : place);
        }
      }
    }
    return [...places.values()];
  }

  private nearest(event: MouseEvent): Place | undefined {
    const box = this.element.querySelector("svg")?.getBoundingClientRect();
    if (!box) {
      return undefined;
    }
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const distance = (place: Place): number =>
      Math.hypot(
        Math.max(0, Math.abs(place.x - x) - place.halfWidth),
        Math.max(0, Math.abs(place.y - y) - place.halfHeight),
      );
    return least(
      this.found().filter((place) => distance(place) <= REACH),
      distance,
    );
  }

  private press(event: KeyboardEvent): void {
    const places = this.found();
    const current = places.find((place) => place.label === this.at);
    if (event.key === "Enter" || event.key === " ") {
      if (current) {
        event.preventDefault();
        this.picking.act(current.picked);
      }
      return;
    }
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const step = steps[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    event.preventDefault();
    if (!current) {
      this.mark(least(places, (place) => place.x));
      return;
    }
    const ahead = (place: Place): number =>
      (place.x - current.x) * step[0] + (place.y - current.y) * step[1];
    const aside = (place: Place): number =>
      Math.abs((place.x - current.x) * step[1]) + Math.abs((place.y - current.y) * step[0]);
    // What is ahead counts more than what is aside; points at one place come one after the other.
    const next = least(
      places.filter((place) => place !== current && ahead(place) > 0.5),
      (place) => ahead(place) + 3 * aside(place),
    );
    const same = places.filter((place) => Math.hypot(place.x - current.x, place.y - current.y) <= 0.5);
    const twin = same[same.indexOf(current) + 1];
    this.mark(step[1] === 1 && twin ? twin : (next ?? current));
  }

  /** Shows where the keys are, and says it. */
  private mark(place: Place | undefined): void {
    this.at = place?.label;
    this.ring.hidden = !place;
    if (place) {
      this.ring.style.left = `${place.x}px`;
      this.ring.style.top = `${place.y}px`;
      this.words.textContent = place.label;
    }
  }
}

function least<Item>(items: Item[], of: (item: Item) => number): Item | undefined {
  return items.reduce<Item | undefined>(
    (best, item) => (best === undefined || of(item) < of(best) ? item : best),
    undefined,
  );
}

type Scale = ((value: unknown) => number) & { bandwidth?: () => number };

function scaleOf(view: View, name: string): Scale | undefined {
  try {
    return view.scale(name) as Scale;
  } catch {
    // A drawing of two parts has scales of other names.
    return undefined;
  }
}

/** The middle of a value's place, and half of what the place takes. */
function middle(scale: Scale, value: unknown): [number, number] {
  const half = (scale.bandwidth?.() ?? 0) / 2;
  return [scale(value) + half, half];
}

function axisTitle(layer: Specification, channel: string): string {
  return String(layer["encoding"]?.[channel]?.title ?? "");
}

function rowsOf(specification: Specification, layer: Specification): Record<string, unknown>[] {
  const data = layer["data"] ?? specification["data"] ?? {};
  return data.values ?? specification["datasets"]?.[data.name] ?? [];
}
