// What the reader sets: policies, sizes, prices, endurance and devices.

import type { Catalogue, Device, Prices, Trace } from "./api";
import { type Choices, LEAST_PERCENT, MOST_PERCENT, MOST_STEPS, type Range, percentsOf } from "./choices";
import { Amount, Box, Group, Slider } from "./fields";
import { bytes, short } from "./numbers";
import { Policies } from "./policies";

/** What is set first where the server says nothing, per GiB. */
const PRICES: Prices = { ram: 4, flash: 0.2, disk: 0.02 };
const ENDURANCE = 3000;

export function Controls(props: {
  catalogue: Catalogue;
  trace: Trace | undefined;
  choices: Choices;
  set(change: Partial<Choices>): void;
}) {
  const { catalogue, trace, choices, set } = props;
  const { prices, endurance, devices } = choices;
  return (
    <form class="controls" aria-label="What is compared" onSubmit={(event) => event.preventDefault()}>
      <Sizes name="RAM" range={choices.ram} trace={trace} set={(ram) => set({ ram })} />
      <Sizes name="Flash" range={choices.flash} trace={trace} set={(flash) => set({ flash })} />
      <Policies
        policies={catalogue.policies}
        chosen={choices.policies}
        defaults={catalogue.defaults.policies}
        set={(policies) => set({ policies })}
      />
      <Group title="Prices" open={prices !== undefined}>
        <Box
          label="Count costs"
          checked={prices !== undefined}
          set={(on) => set({ prices: on ? (catalogue.defaults.prices_per_gib ?? PRICES) : undefined })}
        />
        {prices &&
          (["ram", "flash", "disk"] as const).map((tier) => (
            <Amount
              key={tier}
              label={{ ram: "RAM", flash: "Flash", disk: "Disk" }[tier]}
              unit="per GiB"
              value={prices[tier]}
              least={1 / 256}
              most={64}
              set={(price) => set({ prices: { ...prices, [tier]: price } })}
            />
          ))}
      </Group>
      <Group title="Endurance" open={endurance !== undefined}>
        <Box
          label="Set how often flash can be written"
          checked={endurance !== undefined}
          set={(on) => set({ endurance: on ? (catalogue.defaults.endurance_cycles ?? ENDURANCE) : undefined })}
        />
        {endurance !== undefined && (
          <Amount
            label="Endurance"
            unit="times"
            value={endurance}
            least={64}
            most={131_072}
            set={(endurance) => set({ endurance: Math.max(1, Math.round(endurance)) })}
          />
        )}
      </Group>
      <Group title="Devices" open={devices.flash !== "" || devices.disk !== ""}>
        {(["flash", "disk"] as const).map((tier) => (
          <label class="device" key={tier}>
            {tier === "flash" ? "Flash device" : "Disk device"}
            <select
              value={devices[tier]}
              onInput={(event) => set({ devices: { ...devices, [tier]: event.currentTarget.value } })}
            >
              <option value="">as usual</option>
              {catalogue.devices[tier].map((device) => (
                <option key={nameOf(device)} value={nameOf(device)}>
                  {aboutOf(device)}
                </option>
              ))}
            </select>
          </label>
        ))}
      </Group>
    </form>
  );
}

/** Sizes of a tier: from and to, and how many. */
function Sizes(props: { name: string; range: Range; trace: Trace | undefined; set(range: Range): void }) {
  const { name, range, trace, set } = props;
  const footprint = (trace?.footprint_pages ?? 0) * (trace?.page_size_bytes ?? 0);
  const words = (percent: number): string =>
    `${short(percent)} %${footprint > 0 ? `, ${bytes((footprint * percent) / 100)}` : ""}`;
  const limits = { least: LEAST_PERCENT, most: MOST_PERCENT };
  const count = (event: Event): void => {
    const steps = (event.currentTarget as HTMLInputElement).valueAsNumber;
    if (steps >= 1 && steps <= MOST_STEPS) {
      // Several sizes need room between the first and the last.
      const to = steps > 1 && range.to <= range.from ? Math.min(MOST_PERCENT, range.from * 4) : range.to;
      set({ ...range, to, steps: Math.round(steps) });
    }
  };
  return (
    <fieldset class="sizes">
      <legend>{name}, of the footprint</legend>
      <Slider
        {...limits}
        label={range.steps > 1 ? `${name} from` : `${name} size`}
        value={range.from}
        words={words(range.from)}
        set={(from) => set({ ...range, from, to: Math.max(from, range.to) })}
      />
      {range.steps > 1 && (
        <Slider
          {...limits}
          label={`${name} to`}
          value={range.to}
          words={words(range.to)}
          set={(to) => set({ ...range, to, from: Math.min(range.from, to) })}
        />
      )}
      <label class="steps">
        Number of sizes{" "}
        <input
          type="number"
          min="1"
          max={MOST_STEPS}
          value={range.steps}
          aria-label={`Number of ${name} sizes`}
          onInput={count}
        />
      </label>
      {range.steps > 1 && <p class="hint">{percentsOf(range).map((size) => `${short(size)} %`).join(", ")}</p>}
    </fieldset>
  );
}

function nameOf(device: Device): string {
  return typeof device === "string" ? device : device.name;
}

function aboutOf(device: Device): string {
  return typeof device === "string" || !device.about ? nameOf(device) : `${device.name}: ${device.about}`;
}
