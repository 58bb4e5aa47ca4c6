// One point of a study in detail, in a dialog.

import { useEffect, useRef, useState } from "preact/hooks";

import { copyButton } from "../copy";
import { type Command, type Place, type PointDetails, type StudyAsk, ask, wordsOf } from "./api";
import { FragmentView } from "./fragment-view";

/** Points that were looked at, so that another look is at once. */
const known = new Map<string, PointDetails>();
const KNOWN_MAX = 24;

export function Point(props: {
  ask: StudyAsk;
  place: Place;
  name: string;
  isPinned: boolean;
  pin(isPinned: boolean): void;
  close(): void;
}) {
  const { place, name, isPinned, pin, close } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  const [details, setDetails] = useState<PointDetails>();
  const [error, setError] = useState<string>();
  const [tries, setTries] = useState(0);
  const question = { ask: props.ask, point: place };
  const key = JSON.stringify(question);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  useEffect(() => {
    const abort = new AbortController();
    const former = known.get(key);
    setDetails(former);
    setError(undefined);
    if (!former) {
      ask<PointDetails>("POST", "points", question, abort.signal).then(
        (found) => {
          if (known.size >= KNOWN_MAX) {
            known.clear();
          }
          known.set(key, found);
          setDetails(found);
        },
        (error) => abort.signal.aborted || setError(wordsOf(error)),
      );
    }
    return () => abort.abort();
  }, [key, tries]);
  return (
    <dialog ref={dialog} class="point" aria-labelledby="point-title" onClose={close}>
      <div class="bar">
        <h2 id="point-title">{details?.title ?? name}</h2>
        <button type="button" aria-pressed={isPinned} onClick={() => pin(!isPinned)}>
          {isPinned ? "Unpin" : "Pin to compare"}
        </button>{" "}
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </div>
      {!details && error === undefined && (
        <p role="status">
          Running {place.policy} on the whole trace... <progress aria-label="Running" />
        </p>
      )}
      {error !== undefined && (
        <p class="problem" role="alert">
          {error}{" "}
          <button type="button" onClick={() => setTries(tries + 1)}>
            Try again
          </button>
        </p>
      )}
      {details && (
        <>
          <FragmentView key={key} html={details.html} />
          {details.commands.map((command) => (
            <CommandView key={command.title} {...command} />
          ))}
        </>
      )}
    </dialog>
  );
}

/** A command with a button that copies it. */
function CommandView({ title, text }: Command) {
  const place = useRef<HTMLDivElement>(null);
  const code = useRef<HTMLElement>(null);
  useEffect(() => {
    if (code.current) {
      const copy = copyButton(`Copy: ${title}`, code.current);
      place.current?.append(copy);
      return () => copy.remove();
    }
    return undefined;
  }, [title]);
  return (
    <div ref={place} class="command">
      <h3>{title}</h3>
      <pre>
        <code ref={code}>{text}</code>
      </pre>
    </div>
  );
}
