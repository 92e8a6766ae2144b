// Where in the page one is: it stands in the address, so that a reload, a bookmark and the back button lead there.

/** The runs of a list: of a workflow or an agent, with a status. */
export interface RunFilter {
  workflow?: string;
  agent?: string;
  status?: string; // name of a choice
}

/** What is looked at: the list of runs; or a workflow or an agent, the session, and the runs that are followed, the newest last. */
export interface Place {
  workflow?: string;
  agent?: string;
  session?: string;
  runs: string[];
  list?: RunFilter;
}

const mostRuns = 16;

export function readPlace(hash: string): Place {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const one = (name: string) => query.get(name) || undefined;
  const agent = one("agent");
  if (one("list") === "runs") return { runs: [], list: { workflow: agent ? undefined : one("workflow"), agent, status: one("status") } };
  return {
    workflow: agent ? undefined : one("workflow"),
    agent,
    session: agent ? one("session") : undefined,
    // Ids go into paths; what cannot be one is none.
    runs: query.getAll("run").filter((id) => /^[A-Za-z0-9_-]{1,64}$/.test(id)).slice(-mostRuns),
  };
}

export function writePlace(place: Place): string {
  const query = new URLSearchParams();
  if (place.list) {
    query.set("list", "runs");
    for (const name of ["workflow", "agent", "status"] as const) if (place.list[name]) query.set(name, place.list[name]);
    return "#" + query;
  }
  if (place.agent) query.set("agent", place.agent);
  else if (place.workflow) query.set("workflow", place.workflow);
  if (place.agent && place.session) query.set("session", place.session);
  for (const id of place.runs.slice(-mostRuns)) query.append("run", id);
  return "#" + query;
}
