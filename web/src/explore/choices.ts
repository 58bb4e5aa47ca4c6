// What the reader chooses, and how it stands in the address, so that it is there again after a reload.

import type { Catalogue, Place, Prices, StudyAsk, Trace } from "./api";
import { short } from "./numbers";

/** Sizes between two, in percent of the footprint. */
export interface Range {
  from: number;
  to: number;
  steps: number;
}

/** Where a trace is from, to open it again. */
export type Origin = { bundled: true } | { path: string } | undefined;

export interface Choices {
  policies: string[];
  ram: Range;
  flash: Range;
  devices: { flash: string; disk: string };
  /** None where costs are not counted. */
  prices: Prices | undefined;
  /** None where devices have their own. */
  endurance: number | undefined;
}

/** What stands in the address. */
export interface Address {
  trace: number | undefined;
  origin: Origin;
  choices: Partial<Choices>;
  pins: Place[];
}

export const LEAST_PERCENT = 1 / 16;
export const MOST_PERCENT = 100;
export const MOST_STEPS = 12;

/** What is chosen at first. */
export function defaults(catalogue: Catalogue): Choices {
  const { policies, ram, flash } = catalogue.defaults;
  const percents = (sizes: string[], above: number): number[] =>
    sizes.map((size) => Number.parseFloat(size) * (size.endsWith("x") ? above : 1)).filter(Number.isFinite);
  const first = percents(ram, 2);
  return {
    policies,
    ram: rangeOf(first, 2, 2),
    flash: rangeOf(percents(flash, first[0] ?? 2), 2, 32),
    devices: { flash: "", disk: "" },
    prices: undefined,
    endurance: undefined,
  };
}

function rangeOf(percents: number[], from: number, to: number): Range {
  const least = Math.min(...percents);
  const most = Math.max(...percents);
  return percents.length > 0 ? { from: least, to: most, steps: percents.length } : { from, to, steps: 1 };
}

/** The sizes of a range, each as much larger than the one before. */
export function percentsOf({ from, to, steps }: Range): number[] {
  if (steps < 2 || to <= from) {
    return [from];
  }
  const sizes = Array.from({ length: steps }, (_, step) => from * (to / from) ** (step / (steps - 1)));
  return [...new Set(sizes.map((size) => Number(short(size))))];
}

/** What the server is asked for; none if nothing is chosen. */
export function askOf(trace: Trace, choices: Choices): StudyAsk | undefined {
  if (trace.state !== "ready" || choices.policies.length === 0) {
    return undefined;
  }
  const { devices, prices, endurance } = choices;
  const sizes = (range: Range): string[] => percentsOf(range).map((size) => `${size}%`);
  const chosen = Object.entries(devices).filter(([, name]) => name !== "");
  return {
    trace: trace.id,
    policies: choices.policies,
    ram: sizes(choices.ram),
    flash: sizes(choices.flash),
    ...(chosen.length > 0 && { devices: Object.fromEntries(chosen) }),
    ...(prices && { prices_per_gib: prices }),
    ...(endurance !== undefined && { endurance_cycles: endurance }),
  };
}

/** Writes all into the part of the address that no server sees. */
export function writeAddress({ trace, origin, choices, pins }: Address): string {
  const words = new URLSearchParams();
  const put = (name: string, value: string | undefined): void => {
    if (value) {
      words.set(name, value);
    }
  };
  const range = (range: Range | undefined): string | undefined =>
    range && [range.from, range.to, range.steps].join(" ");
  put("trace", trace === undefined ? undefined : String(trace));
  put("from", origin && ("path" in origin ? `path ${origin.path}` : "bundled"));
  put("policies", choices.policies?.join(" "));
  put("ram", range(choices.ram));
  put("flash", range(choices.flash));
  put("flash-device", choices.devices?.flash);
  put("disk-device", choices.devices?.disk);
  put("prices", choices.prices && [choices.prices.ram, choices.prices.flash, choices.prices.disk].join(" "));
  put("endurance", choices.endurance?.toString());
  put("pins", pins.map((pin) => [pin.policy, pin.ram_pages, pin.flash_pages].join(" ")).join(","));
  return `#${words}`;
}

/** Reads the address; what it does not say, or says in a way that is not ours, is left out. */
export function readAddress(hash: string): Address {
  const words = new URLSearchParams(hash.slice(1));
  const numbers = (name: string): number[] => {
    const found = (words.get(name) ?? "").split(" ").map(Number);
    return found.every((number) => Number.isFinite(number) && number > 0) ? found : [];
  };
  const range = (name: string): Range | undefined => {
    const [from = 0, to = 0, steps = 0] = numbers(name);
    const isRange = from >= LEAST_PERCENT && from <= to && to <= MOST_PERCENT;
    return isRange && Number.isInteger(steps) && steps <= MOST_STEPS && steps > 0 ? { from, to, steps } : undefined;
  };
  const from = words.get("from") ?? "";
  const path = from.startsWith("path ") ? from.slice("path ".length) : undefined;
  const [ram, flash, disk] = numbers("prices");
  const choices: Partial<Choices> = {
    devices: { flash: words.get("flash-device") ?? "", disk: words.get("disk-device") ?? "" },
    endurance: numbers("endurance")[0],
    prices: ram && flash && disk ? { ram, flash, disk } : undefined,
  };
  if (words.has("policies")) {
    choices.policies = (words.get("policies") ?? "").split(" ").filter(Boolean);
  }
  for (const name of ["ram", "flash"] as const) {
    const found = range(name);
    if (found) {
      choices[name] = found;
    }
  }
  const pins = (words.get("pins") ?? "").split(",").flatMap((pin) => {
    const [policy, ram_pages, flash_pages] = pin.split(" ");
    const place = { policy: policy ?? "", ram_pages: Number(ram_pages), flash_pages: Number(flash_pages) };
    return place.policy && Number.isInteger(place.ram_pages) && Number.isInteger(place.flash_pages) ? [place] : [];
  });
  return {
    trace: numbers("trace")[0],
    origin: path !== undefined ? { path } : from === "bundled" ? { bundled: true } : undefined,
    choices,
    pins,
  };
}
