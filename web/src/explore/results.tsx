// What a study has found so far.

import { useMemo, useRef } from "preact/hooks";

import type { Actions } from "../fragment";
import type { Row, Study } from "./api";
import { FragmentView } from "./fragment-view";
import { grouped } from "./numbers";
import { nameOf, pickedRow, tableRow } from "./picks";

export function Results(props: {
  study: Study | undefined;
  /** Whether what is shown is of choices that were others. */
  isOld: boolean;
  open(row: Row): void;
}) {
  const { study, isOld } = props;
  const latest = useRef(props);
  latest.current = props;
  // Charts and tables stay from version to version, and ask for what is there now.
  const actions = useMemo((): Actions => {
    const rows = (): Row[] => latest.current.study?.rows ?? [];
    const act = (row: Row | undefined): void => {
      if (row) {
        latest.current.open(row);
      }
    };
    return {
      picking: {
        label: (picked) => words(pickedRow(rows(), picked)),
        act: (picked) => act(pickedRow(rows(), picked)),
      },
      rows: {
        label: (element) => {
          const row = tableRow(rows(), element);
          return row && `Details of ${nameOf(row)}`;
        },
        act: (element) => act(tableRow(rows(), element)),
      },
    };
  }, []);
  return (
    <div class={isOld ? "results is-old" : "results"}>
      <FragmentView html={study?.html ?? ""} actions={actions} />
    </div>
  );
}

function words(row: Row | undefined): string | undefined {
  return row && nameOf(row);
}

/** How far a study is, in a sentence. */
export function progressOf(study: Study): string {
  const { state, points, sampled, exact, sampling_error_points: error } = study;
  if (state === "done") {
    return points === 1 ? "The point is exact." : `All ${grouped(points)} points are exact.`;
  }
  const off = error ? `; sampled points are off by at most ${Math.max(0.01, error.max).toFixed(2)} points` : "";
  const end = state === "stopped" ? "; stopped" : "";
  return `${grouped(Math.max(sampled, exact))} of ${grouped(points)} points sampled, ${grouped(exact)} exact${off}${end}.`;
}
