// Fields that a reader sets.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

import { short } from "./numbers";

/** Steps of a slider per doubling. */
const PER_DOUBLING = 8;

/** A slider of which each step is as much larger than the one before; powers of two are met exactly. */
export function Slider(props: {
  label: string;
  value: number;
  least: number;
  most: number;
  /** The value in words. */
  words: string;
  set(value: number): void;
}) {
  const { label, value, least, most, words, set } = props;
  const id = useId();
  const place = (value: number): number => Math.round(Math.log2(value) * PER_DOUBLING);
  const change = (event: Event): void => {
    const at = Number((event.currentTarget as HTMLInputElement).value);
    const value = Number(short(2 ** (at / PER_DOUBLING)));
    set(Math.min(most, Math.max(least, value)));
  };
  return (
    <div class="slider">
      <label for={id}>{label}</label>
      <span class="value" aria-hidden="true">
        {words}
      </span>
      <input
        id={id}
        type="range"
        min={place(least)}
        // The last step may be a part of one.
        max={Math.ceil(Math.log2(most) * PER_DOUBLING)}
        value={place(value)}
        aria-valuetext={words}
        onInput={change}
      />
    </div>
  );
}

/** A positive number, by a slider or exactly. */
export function Amount(props: {
  label: string;
  unit: string;
  value: number;
  least: number;
  most: number;
  set(value: number): void;
}) {
  const { label, unit, value, least, most, set } = props;
  const type = (event: Event): void => {
    const typed = (event.currentTarget as HTMLInputElement).valueAsNumber;
    if (Number.isFinite(typed) && typed > 0) {
      set(typed);
    }
  };
  const clamped = Math.min(most, Math.max(least, value));
  return (
    <div class="amount">
      <Slider
        label={label}
        value={clamped}
        least={least}
        most={most}
        words={`${short(value)} ${unit}`}
        set={set}
      />
      <input type="number" min="0" step="any" value={value} aria-label={`${label}, exactly`} onChange={type} />
    </div>
  );
}

/** A box that switches something on. */
export function Box(props: { label: string; checked: boolean; set(checked: boolean): void }) {
  return (
    <label class="box">
      <input
        type="checkbox"
        checked={props.checked}
        onChange={(event) => props.set(event.currentTarget.checked)}
      />{" "}
      {props.label}
    </label>
  );
}

/** Fields that belong together, which can be folded up. */
export function Group(props: { title: string; open?: boolean; children: ComponentChildren }) {
  return (
    <details class="group" open={props.open ?? false}>
      <summary>{props.title}</summary>
      {props.children}
    </details>
  );
}
