// The page: a trace, what is chosen, and what comes of it.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

import { download } from "../elements";
import { type Catalogue, type Place, type Row, type Trace, ask, askOnce, wordsOf } from "./api";
import { changed, useAnswer, useStudy, useWatch } from "./asking";
import { type Choices, type Origin, askOf, defaults, readAddress, writeAddress } from "./choices";
import { Banner, Told } from "./connection";
import { Controls } from "./controls";
import { FragmentView } from "./fragment-view";
import { isSame, nameOf } from "./picks";
import { type Pin, Pins, refreshed } from "./pins";
import { Point } from "./point";
import { Results, progressOf } from "./results";
import { Tabs } from "./tabs";
import { Traces } from "./traces";

/** Where controls have room beside the results; the style says the same. */
const WIDE = matchMedia("(min-width: 60rem)");

/** The page, when it knows what there is to choose. */
export function App() {
  const { answer, error } = useAnswer<Catalogue>("catalogue");
  return (
    <>
      <h1>Thermocline explore {answer && <small>{answer.version}</small>}</h1>
      <Banner />
      {answer && <Session catalogue={answer} />}
      {!answer && error === undefined && <p role="status">Asking the server...</p>}
      {error !== undefined && (
        <p class="problem" role="alert">
          {error} Open the address that <code>thermocline explore</code> printed last.
        </p>
      )}
    </>
  );
}

function Session({ catalogue }: { catalogue: Catalogue }) {
  const [address] = useState(() => readAddress(location.hash));
  const [traces, setTraces] = useState(catalogue.traces);
  const [active, setActive] = useState(() => {
    const known = catalogue.traces.find(({ id }) => id === address.trace);
    return (known ?? (address.origin ? undefined : catalogue.traces[0]))?.id;
  });
  const [origins, setOrigins] = useState<Map<number, Origin>>(
    () => new Map(active === undefined ? [] : [[active, address.origin]]),
  );
  const [choices, setChoices] = useState<Choices>(() => known(catalogue, address.choices));
  const [allPins, setPins] = useState<Pin[]>(address.pins);
  const [point, setPoint] = useState<Place>();
  const [saving, setSaving] = useState<{ isSaving: boolean; error?: string | undefined }>({ isSaving: false });

  const trace = traces.find(({ id }) => id === active);
  const take = (trace: Trace, origin: Origin): void => {
    changed(setTraces, trace);
    setOrigins((now) => new Map(now).set(trace.id, origin));
    setActive(trace.id);
  };
  const lose = (id: number): void => {
    setTraces((now) => now.filter((trace) => trace.id !== id));
    setActive((now) => (now === id ? undefined : now));
  };
  const forget = ({ id }: Trace): void => {
    ask("DELETE", `traces/${id}`, undefined, new AbortController().signal).catch(() => undefined);
    lose(id);
  };
  useWatch(active, (trace) => changed(setTraces, trace), lose);
  // A page that is loaded again after the server was started again opens its trace again.
  useEffect(() => {
    const { origin } = address;
    if (active === undefined && origin) {
      ask<Trace>("POST", "traces", origin, new AbortController().signal).then(
        (trace) => take(trace, origin),
        () => undefined,
      );
    }
  }, []);

  const question = trace && askOf(trace, choices);
  const running = useStudy(question);
  const { study } = running;
  const rows = study?.rows ?? [];
  useEffect(() => {
    setPins((now) => (now.length > 0 ? refreshed(now, running.isOld ? [] : rows, active) : now));
  }, [study, running.isOld, active]);
  const pins = allPins.filter((pin) => pin.trace === undefined || pin.trace === active);
  // Before the page is painted: an address that follows later lacks what the reader sees as chosen.
  useLayoutEffect(() => {
    const origin = active === undefined ? address.origin : origins.get(active);
    history.replaceState(null, "", writeAddress({ trace: active, origin, choices, pins }));
  }, [active, origins, choices, allPins]);

  const setPinned = (place: Place, isPinned: boolean): void => {
    setPins((now) => {
      const others = now.filter((pin) => pin.trace !== active || !isSame(pin, place));
      const { policy, ram_pages, flash_pages } = place;
      const row = rows.find((row) => isSame(row, place));
      return isPinned ? [...others, { trace: active, policy, ram_pages, flash_pages, row }] : others;
    });
  };
  const save = async (): Promise<void> => {
    setSaving({ isSaving: true });
    try {
      const body = { study: study?.id, pins: pins.map(({ policy, ram_pages, flash_pages }) => ({ policy, ram_pages, flash_pages })) };
      const response = await askOnce("POST", "report", body);
      const name = response.headers.get("content-disposition")?.match(/filename="?([^";]+)/)?.[1];
      download(name ?? "thermocline-session.html", "text/html", await response.blob());
      setSaving({ isSaving: false });
    } catch (error) {
      const isLost = error instanceof TypeError;
      setSaving({ isSaving: false, error: isLost ? "The server does not answer: try again." : wordsOf(error) });
    }
  };

  const progress = study && !running.isOld ? progressOf(study) : running.isRunning ? "The study begins." : "";
  const pinned = <Pins pins={pins} open={setPoint} unpin={(pin) => setPinned(pin, false)} />;
  const pointRow = point && rows.find((row) => isSame(row, point));
  const results = (
    <>
      {!trace && <p>Choose a trace.</p>}
      {trace && trace.state === "reading" && <p>The trace is being read.</p>}
      {trace?.state === "ready" && choices.policies.length === 0 && <p>Choose at least one policy.</p>}
      {running.error !== undefined && (
        <p class="problem" role="alert">
          {running.error}
        </p>
      )}
      <Results study={study} isOld={running.isOld && study !== undefined} open={(row: Row) => setPoint(row)} />
    </>
  );
  return (
    <>
      <Traces
        traces={traces}
        active={trace}
        dropLimit={catalogue.drop_limit_bytes}
        take={take}
        choose={({ id }) => setActive(id)}
        forget={forget}
      />
      <div class="sides">
        <Side>
          <Controls
            catalogue={catalogue}
            trace={trace}
            choices={choices}
            set={(change) => setChoices((now) => ({ ...now, ...change }))}
          />
        </Side>
        <div class="main">
          <div class="study">
            <span class="words">{progress}</span>
            {study && !running.isOld && study.state !== "done" && (
              <progress value={study.sampled + study.exact} max={Math.max(1, 2 * study.points)} aria-label="Study" />
            )}
            {question && running.isRunning && (
              <button type="button" onClick={running.stop}>
                Stop
              </button>
            )}
            {question && !running.isRunning && (
              <button type="button" onClick={running.restart}>
                Run again
              </button>
            )}
            {study && (
              <button type="button" disabled={running.isOld || saving.isSaving} onClick={() => void save()}>
                {saving.isSaving ? "Making the report..." : "Save as a report"}
              </button>
            )}
          </div>
          {saving.error !== undefined && (
            <p class="problem" role="alert">
              {saving.error}
            </p>
          )}
          <Told text={progress} />
          <Tabs
            label="What is shown"
            tabs={[
              { id: "results", title: "Results", content: results },
              { id: "pins", title: `Pinned (${pins.length})`, content: pinned },
              { id: "character", title: "Character", content: <Character trace={trace} /> },
            ]}
          />
        </div>
      </div>
      {point && question && (
        <Point
          key={JSON.stringify(point)}
          ask={question}
          place={{ policy: point.policy, ram_pages: point.ram_pages, flash_pages: point.flash_pages }}
          name={pointRow ? nameOf(pointRow) : point.policy}
          isPinned={pins.some((pin) => isSame(pin, point))}
          pin={(isPinned) => setPinned(point, isPinned)}
          close={() => setPoint(undefined)}
        />
      )}
    </>
  );
}

/** The side of the page; where there is no room beside the results, it is above them and folded up. */
function Side({ children }: { children: ComponentChildren }) {
  const [isOpen, setOpen] = useState(WIDE.matches);
  useEffect(() => {
    const change = (): void => setOpen(WIDE.matches);
    WIDE.addEventListener("change", change);
    return () => WIDE.removeEventListener("change", change);
  }, []);
  return (
    <details class="side" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>What is compared</summary>
      {children}
    </details>
  );
}

/** What a trace is like. */
function Character({ trace }: { trace: Trace | undefined }) {
  const path = trace?.state === "ready" ? `traces/${trace.id}/character` : undefined;
  const { answer, error } = useAnswer<{ html: string }>(path);
  if (error !== undefined) {
    return <p class="problem">{error}</p>;
  }
  return answer ? <FragmentView key={path} html={answer.html} /> : <p>It comes when the trace is read.</p>;
}

/** What the address says, as far as there is such a thing. */
function known(catalogue: Catalogue, choices: Partial<Choices>): Choices {
  const names = new Set(catalogue.policies.map(({ name }) => name));
  const all = { ...defaults(catalogue), ...choices };
  return { ...all, policies: all.policies.filter((name) => names.has(name)) };
}
