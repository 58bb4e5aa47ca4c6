// A fragment that the server made, as a component.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { type Actions, Fragment } from "../fragment";

/** Shows a fragment; `actions` are those of the first time. */
export function FragmentView(props: { html: string; actions?: Actions }) {
  const place = useRef<HTMLDivElement>(null);
  const fragment = useRef<Fragment | undefined>(undefined);
  useLayoutEffect(() => {
    if (place.current) {
      fragment.current ??= new Fragment(place.current, props.actions);
      fragment.current.show(props.html);
    }
  }, [props.html]);
  useEffect(() => () => fragment.current?.clear(), []);
  return <div ref={place} />;
}
