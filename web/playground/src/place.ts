// Where in the page one is: it stands in the address, so that a reload, a bookmark and the back button lead there.

/** What is looked at: a workflow or an agent, the session, and the runs that are followed, the newest last. */
export interface Place {
  workflow?: string;
  agent?: string;
  session?: string;
  runs: string[];
}

const mostRuns = 16;

export function readPlace(hash: string): Place {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const one = (name: string) => query.get(name) || undefined;
  const agent = one("agent");
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
  if (place.agent) query.set("agent", place.agent);
  else if (place.workflow) query.set("workflow", place.workflow);
  if (place.agent && place.session) query.set("session", place.session);
  for (const id of place.runs.slice(-mostRuns)) query.append("run", id);
  return "#" + query;
}
