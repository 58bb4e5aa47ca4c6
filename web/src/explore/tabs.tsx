// Panels of which one is shown.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

export interface Tab {
  id: string;
  title: string;
  content: ComponentChildren;
}

export function Tabs(props: { label: string; tabs: Tab[] }) {
  const { label, tabs } = props;
  const [shown, setShown] = useState(tabs[0]?.id);
  const move = (event: KeyboardEvent & { currentTarget: HTMLElement }): void => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const at = tabs.findIndex(({ id }) => id === shown);
    const next = step && tabs[(at + step + tabs.length) % tabs.length];
    if (next) {
      event.preventDefault();
      setShown(next.id);
      event.currentTarget.querySelector<HTMLElement>(`#tab-${next.id}`)?.focus();
    }
  };
  return (
    <>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={move}>
        {tabs.map(({ id, title }) => (
          <button
            key={id}
            type="button"
            role="tab"
            id={`tab-${id}`}
            aria-selected={id === shown}
            aria-controls={`panel-${id}`}
            tabindex={id === shown ? 0 : -1}
            onClick={() => setShown(id)}
          >
            {title}
          </button>
        ))}
      </div>
      {tabs.map(({ id, content }) => (
        <div key={id} role="tabpanel" id={`panel-${id}`} aria-labelledby={`tab-${id}`} hidden={id !== shown}>
          {content}
        </div>
      ))}
    </>
  );
}
