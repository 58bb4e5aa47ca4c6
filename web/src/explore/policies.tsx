// The list of policies to choose from.

import { useState } from "preact/hooks";

import type { Policy } from "./api";

/** What groups are called. */
const TITLES: Record<string, string> = {
  published: "Published, two tiers",
  shipped: "Shipped, two tiers",
  "one tier": "One tier",
};

export function Policies(props: {
  policies: Policy[];
  chosen: string[];
  defaults: string[];
  set(chosen: string[]): void;
}) {
  const { policies, chosen, set } = props;
  const [search, setSearch] = useState("");
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = policies.filter(({ name, about, group }) => {
    const text = `${name} ${about} ${group}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const groups = [...new Set(policies.map(({ group }) => group))];
  const toggle = (name: string, isChosen: boolean): void => {
    // In the order of the list, so that the same choice is the same study.
    const names = new Set(isChosen ? [...chosen, name] : chosen.filter((other) => other !== name));
    set(policies.map((policy) => policy.name).filter((name) => names.has(name)));
  };
  return (
    <fieldset class="policies">
      <legend>Policies</legend>
      <label>
        Search <input type="search" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
      </label>
      <p class="hint">
        {chosen.length} of {policies.length} chosen{words.length > 0 && `, ${found.length} found`}{" "}
        <button type="button" onClick={() => set(props.defaults)}>
          Choose a few
        </button>{" "}
        <button type="button" onClick={() => set([])}>
          Choose none
        </button>
      </p>
      <div class="list" onKeyDown={walk}>
        {groups.map((group) => {
          const own = found.filter((policy) => policy.group === group);
          return (
            own.length > 0 && (
              <fieldset key={group}>
                <legend>{TITLES[group] ?? group}</legend>
                {own.map(({ name, about }) => (
                  <label class="policy" key={name}>
                    <input
                      type="checkbox"
                      value={name}
                      checked={chosen.includes(name)}
                      onChange={(event) => toggle(name, event.currentTarget.checked)}
                    />
                    <span>
                      <b>{name}</b> {about}
                    </span>
                  </label>
                ))}
              </fieldset>
            )
          );
        })}
        {found.length === 0 && <p>No policy has these words.</p>}
      </div>
    </fieldset>
  );
}

/** Arrow keys go from box to box. */
function walk(event: KeyboardEvent & { currentTarget: HTMLElement }): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const boxes = [...event.currentTarget.querySelectorAll("input")];
  const at = boxes.findIndex((box) => box === document.activeElement);
  if (step && at >= 0) {
    event.preventDefault();
    boxes[at + step]?.focus();
  }
}
