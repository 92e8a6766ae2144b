// Package flow runs workflows: which bots there are, and what starts them. A workflow is a YAML file or Go code registered
// under a name; both are a [Workflow] and are run by the same API.
//
// # Words
//   - A trigger is what starts a bot: a value that is complete at a uri, the end of other bots, or their failure.
//   - The source of a trigger is a bot that can fire it.
//   - A start is one bot that was started; a bot of a workflow can have many, each with its own root.
//
// # Guarantees
//   - A workflow is checked when it is loaded. All that is wrong with a file is reported at once, each problem with file,
//     line and column.
//   - A [Workflow] does not change: a run keeps the one that it started with, also after a reload.
//   - A trigger fires once for each value that completes, while the bot that writes it goes on writing.
//   - Everything that a workflow starts is counted by the run's manager, so that its Close waits for all of it.
//   - Files are read only inside the workflow's folder.
package flow
