// Points that the reader has pinned, side by side.

import type { Place, Row } from "./api";
import { bytes, grouped, short } from "./numbers";
import { isSame } from "./picks";

/** A pinned point of a trace, with what was last known of it. */
export interface Pin extends Place {
  /** None before the trace of the address is there. */
  trace?: number | undefined;
  row?: Row | undefined;
}

/** A column: its title, its value, and whether more is better. */
interface Column {
  title: string;
  of(row: Row): number | null;
  show(value: number): string;
  isMoreBetter: boolean;
}

const COLUMNS: Column[] = [
  { title: "Hit ratio (%)", of: (row) => row.hit_ratio * 100, show: (value) => value.toFixed(2), isMoreBetter: true },
  { title: "I/O time (s)", of: (row) => row.io_time_ms / 1000, show: short, isMoreBetter: false },
  { title: "Written to flash", of: (row) => row.flash_bytes_written, show: bytes, isMoreBetter: false },
  { title: "Flash life (years)", of: (row) => row.life_years, show: short, isMoreBetter: true },
  { title: "Cost", of: (row) => row.cost, show: short, isMoreBetter: false },
];

export function Pins(props: {
  pins: Pin[];
  open(pin: Pin): void;
  unpin(pin: Pin): void;
}) {
  const { pins, open, unpin } = props;
  const columns = COLUMNS.filter(({ of }) => pins.some(({ row }) => row && of(row) !== null));
  const best = (column: Column): number | undefined => {
    const values = pins.flatMap(({ row }) => (row ? [column.of(row) ?? NaN] : [])).filter(Number.isFinite);
    return values.length > 1 ? (column.isMoreBetter ? Math.max(...values) : Math.min(...values)) : undefined;
  };
  return (
    <section class="pins" aria-labelledby="pins-title">
      <h2 id="pins-title">Pinned points</h2>
      {pins.length === 0 && <p class="hint">Choose a point of a chart or a row of a table, and pin it.</p>}
      {pins.length > 0 && (
        <div class="wide" tabindex={0} role="region" aria-label="Table of pinned points">
          <table>
            <thead>
              <tr>
                <th scope="col">policy</th>
                <th scope="col" class="number">RAM</th>
                <th scope="col" class="number">flash</th>
                {columns.map(({ title }) => (
                  <th key={title} scope="col" class="number">
                    {title}
                  </th>
                ))}
                <td />
              </tr>
            </thead>
            <tbody>
              {pins.map((pin) => (
                <tr key={`${pin.policy} ${pin.ram_pages} ${pin.flash_pages}`}>
                  <td>
                    <button type="button" class="open" onClick={() => open(pin)}>
                      {pin.policy}
                    </button>
                  </td>
                  <td class="number">{pin.row ? bytes(pin.row.ram_bytes) : `${grouped(pin.ram_pages)} pages`}</td>
                  <td class="number">{pin.row ? bytes(pin.row.flash_bytes) : `${grouped(pin.flash_pages)} pages`}</td>
                  {columns.map((column) => {
                    const value = pin.row ? column.of(pin.row) : null;
                    const isBest = value !== null && value === best(column);
                    return (
                      <td key={column.title} class={isBest ? "number best" : "number"}>
                        {value === null ? "-" : `${pin.row?.is_exact ? "" : "about "}${column.show(value)}`}
                      </td>
                    );
                  })}
                  <td>
                    <button type="button" aria-label={`Unpin ${pin.policy}`} onClick={() => unpin(pin)}>
                      Unpin
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

/** The pins with what is known now of those of a trace. */
export function refreshed(pins: Pin[], rows: Row[], trace: number | undefined): Pin[] {
  return pins.map((pin) => {
    const own = { ...pin, trace: pin.trace ?? trace };
    return own.trace === trace ? { ...own, row: rows.find((row) => isSame(row, pin)) ?? pin.row } : own;
  });
}
