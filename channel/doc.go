// Package channel turns one event of a platform into one turn of an agent: the kernel that all doors share.
//
// A channel is a platform, an account one login on it, a door its transport, and a turn one pass of the kernel. A turn has nine
// stages, strictly one after the other: ingest, classify, preflight, resolve, authorize, assemble, record, dispatch, finalize.
//
// Four things stay apart up to the call that sends: where a message came from ([ConversationFacts]), who handles it
// ([RouteFacts]), where the reply goes ([ReplyPlanFacts]), and what the agent sees ([MessageFacts], [SupplementalFacts],
// [MediaFact]).
//
// A turn that is stopped is a value, [Result]; an error means that something broke.
package channel
