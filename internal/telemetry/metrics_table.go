package telemetry

// Buckets of durations, in seconds. Answers of models take from a tenth of a second to minutes, a disk and a document milliseconds.
var (
	slow = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	wait = []float64{0.05, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 5, 10, 30, 60}
	fast = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600}
)

// definition is what a metric is called, what it says, and which labels it has.
type definition struct{ name, help, labels string }

var counters = []definition{
	{"runs_started_total", "Runs started by requests. Messages of other channels are turns.", "kind name"},
	{"runs_ended_total", "Ended runs by status and error code; moved runs continue at another replica.", "kind name status code"},
	{"upstream_requests_total", "Ended requests to models: ok, canceled or an error code.", "provider model outcome"},
	{"upstream_retries_total", "Retried requests to models.", "provider model"},
	{"tokens_total", "Tokens as providers count them, by direction: input or output.", "provider model direction"},
	{"tokens_by_kind_total", "Of these tokens: cached, cache_write, reasoning, audio.", "provider model kind"},
	{"cost_dollars_total", "Estimated cost by provider or configured prices; 0 without a price.", "provider model"},
	{"stream_events_total", "Events sent to clients.", "kind"},
	{"stream_bytes_total", "Bytes of events sent to clients.", "kind"},
	{"stream_snapshots_total", "Snapshots sent to clients that had fallen behind.", "kind"},
	{"streams_ended_total", "Ended streams: complete, left, slow, stopped or revoked.", "kind end"},
	{"resumes_total", "Clients that resumed with an event id: followed, complete (nothing missing), gone or invalid.", "outcome"},
	{"http_requests_total", "Ended requests by status class; 0xx had no answer.", "route method status"},
	{"http_broken_total", "Answers without a clean end.", "route"},
	{"http_response_bytes_total", "Bytes of answer bodies.", "route"},
	{"http_refusals_total", "Requests refused by access control or a limit.", "reason"},
	{"tape_appends_total", "Batches for tapes: ok, refused (conflict) or failed (disk).", "outcome"},
	{"tape_entries_total", "Entries appended to tapes.", ""},
	{"tape_bytes_total", "Bytes appended to tapes.", ""},
	{"channel_turns_total", "Messages of channels by outcome.", "channel outcome reason"},
}

var gauges = []definition{
	{"build_info", "Always 1; the labels tell the build.", "version commit goversion"},
	{"runs_running", "Running runs.", "kind name"},
	{"upstream_waiting", "Requests to models that wait for a slot.", "provider model"},
	{"upstream_in_flight", "Running requests to models.", "provider model"},
	{"streams_open", "Clients that follow a run; kind json waits for a whole document.", "kind"},
}

var histograms = []struct {
	definition
	buckets []float64
}{
	{definition{"run_first_delta_seconds", "Time to the first piece of a run's document.", "kind name"}, wait},
	{definition{"run_duration_seconds", "Time of a run.", "kind name"}, slow},
	{definition{"upstream_queue_seconds", "Time that requests waited for a slot.", "provider model"}, fast},
	{definition{"upstream_first_token_seconds", "Time to the first token.", "provider model"}, wait},
	{definition{"upstream_request_duration_seconds", "Time of a request to a model.", "provider model"}, slow},
	{definition{"http_request_duration_seconds", "Time to the end of an answer or stream.", "route"}, fast},
	{definition{"channel_stage_seconds", "Time of a stage of a channel's turn.", "channel stage"}, fast},
}
