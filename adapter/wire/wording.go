package wire

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lingserve/lingserve/adapter"
)

// What a failure means: the error for it, without what the server adds. % is the server. Where Retryable is set, so is the time that the report
// asks to wait. Each is something that a caller, or who operates the server, does something else about.
var (
	filtered = &adapter.Error{Message: contentFilter, Filtered: true, Refused: true, Notice: filterNotice}
	tooLong  = &adapter.Error{
		Code: adapter.CodeInvalid, ContextLength: true,
		Message: "the request is too long for the model: shorten the prompt or the history, or use a model with a larger context",
	}
	noCredit   = &adapter.Error{Code: adapter.CodeRateLimited, Message: "% reports that the account has no credit left"}
	badKey     = &adapter.Error{Code: adapter.CodeAuth, Message: "% refused the key: check "}
	noAccess   = &adapter.Error{Code: adapter.CodeAuth, Message: "% denies this account the request: check its permissions"}
	limited    = &adapter.Error{Code: adapter.CodeRateLimited, Retryable: true, Message: "% limits the rate of requests: retry later"}
	tooMuch    = &adapter.Error{Code: adapter.CodeRateLimited, Message: "% reports that this request exceeds the account's tokens per minute: shorten it, or raise the limit"}
	slow       = &adapter.Error{Code: adapter.CodeTimeout, Retryable: true, Message: "% did not answer in time"}
	busy       = &adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Message: "% is busy with a conflicting request: try again"}
	overloaded = &adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Message: "% is overloaded: retry later"}
	failed     = &adapter.Error{Code: adapter.CodeUnavailable, Retryable: true, Message: "% failed or is overloaded: retry later"}
	unknown    = &adapter.Error{Message: "% does not know this model or address: check the model's name, and the base URL"}
	badCall    = &adapter.Error{Retryable: true, Message: "the model called a tool in an invalid way: retry"}
	badHistory = &adapter.Error{Refused: true, Message: "% refused the tool calls and results of the history"}
	refused    = &adapter.Error{Message: "% refused the request: the model may not support a part of it"}
	redirect   = &adapter.Error{Message: "% answered with a redirect, which is not followed: check the base URL"}
)

// wording is how providers say that a failure has a meaning: the codes of an error have one of the codes, its message has one of the texts, or the
// codes and the message behind them have one of both. All are in small letters. "…" stands for anything.
type wording struct {
	means              *adapter.Error
	says               string // our sentence, where there is a better one than the meaning's; % is the server
	bare               bool   // only where there is no status, which would say more
	codes, texts, both []string
}

const (
	saysQuota   = "% reports that the account's quota is used up: wait until it resets, or raise it"
	saysPlace   = "% does not serve the country or region that this request comes from"
	saysRegion  = "% does not have this model in this region: choose another region, or another model"
	saysProfile = "% offers this model only through an inference profile: use the profile's id, such as us.PROVIDER.MODEL"
	saysTools   = "the model does not support tools: choose another model, or remove the tools"
	saysImages  = "the model does not support such images or files: choose another model, or remove them"
	saysSchema  = "% does not support the JSON Schema: simplify it, or request any JSON"
)

// wordings are looked at in this order: the first one that fits decides what a failure means. Otherwise the status does. They are those
// that providers document, or that have been recorded or reported; a wrong meaning is worse than none, so each is as narrow as it can be. The
// tests of this table name the providers.
var wordings = []wording{
	// A filter.
	{
		means: filtered,
		codes: []string{
			"content_filter", "content_policy", "responsibleaipolicyviolation", "data_inspection_failed", "datainspectionfailed", " 1301 ",
			" 1026 ", " 1027 ",
		},
		texts: []string{
			"content management policy", "content filtering policy", "content exists risk", "content violates usage guidelines",
			"considered high risk", "requires moderation…flagged", "rejected as a result of our safety", "flagged as potentially violating",
			"blocked by…prohibited_content", "input data may contain inappropriate", "output data may contain inappropriate",
			"blocked by your guardrail", "unsafe or sensitive content", "detected sensitive content", "input new_sensitive",
			"output new_sensitive",
		},
		both: []string{"permission…content moderation"},
	},
	// Limits by the minute speak of tokens, too, and are no lack of room. Those that a request cannot ever keep to come first.
	{means: tooMuch, texts: []string{"request too large…tokens per min"}},
	{means: noCredit, says: saysQuota, both: []string{"perday…quota", "resource_exhausted…limit: 0,"}},
	{means: overloaded, codes: []string{"engine_overloaded", "capacity_exceeded", " 3505 ", " 1305 "}},
	{
		means: limited,
		codes: []string{
			"resource_exhausted", "rate_limit", "ratelimit", "too_many_requests", "toomanyrequests", "limit_requests", "limit_burst_rate",
			"throttling", " 1302 ", " 1303 ",
		},
		texts: []string{"please wait before trying again", "too many requests", "tokens per min", "requests per min", "rate limit"},
	},
	// The context.
	{
		means: tooLong,
		codes: []string{
			"context_length", "context_window_exceeded", "exceed_context_size", "string_above_max_length", "too_many_tokens",
			"too_many_prompt_tokens", "max_prompt_tokens_exceeded", "request_too_large", " 1261 ",
		},
		texts: []string{
			"context length", "context_length", "context window", "contextwindowexceeded", "context size", "exceed context limit",
			"maximum context", "prompt is too long", "prompt too long", "prompt exceeds max length", "prompt token count…exceeds the limit",
			"maximum prompt length", "input is too long", "input tokens exceeded", "input tokens exceeds maximum length",
			"input token count…exceeds the maximum", "tokens in request more than max tokens", "too many input tokens", "too many tokens",
			"length of all messages is too long", "reduce the length of the messages", "model token limit", "token length too long",
			"maximum model length", "max_model_len", "input length", "inputs tokens + max_new_tokens", "`inputs` tokens + `max_new_tokens`",
			"prompt tokens…exceeds the max model len", "maximum input length…tokens",
		},
	},
	// Money.
	{
		means: noCredit,
		codes: []string{
			"insufficient_quota", "insufficient_balance", "exceeded_current_quota", "billing", "arrearage", "freetieronly", " 1113 ",
		},
		texts: []string{
			"credit balance is too low", "insufficient balance", "insufficient credits", "requires more credits",
			"exceeded your current quota", "used all available credits", "exhausted its credits",
		},
	},
	{
		means: noCredit, says: saysQuota,
		codes: []string{"servicequotaexceeded"},
		texts: []string{"monthly spending limit", "key limit exceeded", "reached your specified api usage limits"},
	},
	// Where one is, and where a model is.
	{
		means: noAccess, says: saysPlace,
		codes: []string{"unsupported_country_region_territory"},
		texts: []string{
			"user location is not supported", "country, region, or territory not supported", "not available in your region",
			"not available in your country", "access…from unsupported countries",
		},
	},
	{means: refused, says: saysProfile, texts: []string{"on-demand throughput…supported"}},
	{
		means: unknown, says: saysRegion,
		texts: []string{"model…not supported in this region", "not available in this region", "not servable in region"},
	},
	{
		means: noAccess, says: "% does not let this account use the model: ask it for access",
		texts: []string{"don't have access to the model"},
	},
	// The model's name.
	{
		means: unknown,
		codes: []string{"model_not_found", "deploymentnotfound", "resourcenotfoundexception", "not_found_error", " 1211 "},
		texts: []string{"model not exist", "provided model identifier is invalid", "is not a valid model id", "unknown model"},
		both:  []string{"invalid_model…invalid model"},
	},
	// The key.
	{
		means: noAccess, says: "% says that its API is not enabled in this account's project: enable it",
		codes: []string{"service_disabled"},
	},
	{
		means: badKey,
		codes: []string{
			"invalid_api_key", "api_key_invalid", "authentication", "unauthenticated", "unrecognizedclientexception",
			"invalidsignatureexception", "expiredtokenexception", "permission",
		},
		texts: []string{"incorrect api key", "api key not valid", "api key expired", "invalid api key"},
	},
	// Calls of tools.
	{
		means: badCall,
		codes: []string{"tool_use_failed", "malformed_function_call"},
		texts: []string{"invalid sequence as part of tooluse"},
	},
	{
		means: badHistory,
		texts: []string{
			"must be followed by tool messages", "must be a response to a prec", "without `tool_result` blocks", "unexpected `tool_use_id`",
			"no tool output found for function call", "no tool call found for function call output", "number of function response parts",
			"function call turn comes immediately after", "same number of function calls and responses",
			"toolresult blocks…exceeds the number of tooluse", "expected toolresult blocks",
		},
	},
	// What a model cannot do.
	{
		means: refused, says: saysTools,
		texts: []string{
			"does not support tool", "endpoints found that support tool use", "tool use in streaming mode", "function calling is not enabled",
		},
	},
	{
		means: refused, says: "% takes tools only where it is started with --enable-auto-tool-choice and a --tool-call-parser",
		texts: []string{"tool choice requires --enable-auto-tool-choice"},
	},
	{
		means: refused, says: saysImages,
		texts: []string{
			"does not support image", "image input modality is not enabled", "endpoints found that support image input",
			"image_url is only supported by certain models", "image input is not supported", "is not a multimodal model",
			"unknown variant `image_url`", "doesn't support the image",
		},
	},
	{
		means: refused, says: "the model's answer did not fit the JSON Schema: simplify it, or ask for any JSON",
		codes: []string{"json_validate_failed"},
	},
	{
		means: refused, says: saysSchema,
		texts: []string{
			"invalid schema for response_format", "schema produces a constraint that has too many states", "schema is too complex",
		},
	},
	// The server.
	{
		means: overloaded,
		codes: []string{"overloaded", "serviceunavailableexception", "modelnotreadyexception"},
		texts: []string{"model is overloaded", "currently overloaded", "high demand"},
	},
	{means: overloaded, says: "% is still loading the model: try again in a moment", texts: []string{"loading model"}},
	{means: slow, codes: []string{"timeout", "deadline_exceeded"}},
	{means: failed, codes: []string{"modelerror", "modelstreamerror"}},
	{means: failed, bare: true, codes: []string{"server_error", "unavailable", "internal", " api_error "}},
	{means: refused, bare: true, codes: []string{"invalid_request"}},
}

// meant finds the wording that a report has; nil is none. What a status says for certain, no wording changes.
func meant(status int, r *Report) (means *adapter.Error, says string) {
	if status == 0 {
		status = r.Status
	}
	code, text := r.Kind+" ", strings.ToLower(r.Message)
	for i := range wordings {
		w := &wordings[i]
		fits := hasOne(code, w.codes) || hasOne(text, w.texts) || hasOne(code+text, w.both)
		if fits && possible(w.means, status) && (!w.bare || status == 0) {
			return w.means, w.says
		}
	}
	return nil, ""
}

// possibleMeanings are what answers with these statuses can mean. What a server says when it fails (500 stands for all of those) is not always
// about the request.
var possibleMeanings = map[int][]*adapter.Error{
	http.StatusUnauthorized:          {badKey, noAccess, noCredit},
	http.StatusPaymentRequired:       {noCredit},
	http.StatusForbidden:             {filtered, noCredit, badKey, noAccess, limited, tooMuch, busy, overloaded, unknown, badCall, badHistory},
	http.StatusRequestTimeout:        {slow},
	http.StatusConflict:              {busy},
	http.StatusRequestEntityTooLarge: {tooLong, limited, tooMuch},
	http.StatusTooManyRequests:       {limited, tooMuch, noCredit, overloaded},
	http.StatusInternalServerError:   {tooLong, limited, overloaded, failed, slow, filtered, badCall},
	http.StatusGatewayTimeout:        {slow},
}

// possible reports whether an answer with this status can mean that.
func possible(means *adapter.Error, status int) bool {
	if status > http.StatusInternalServerError && status != http.StatusGatewayTimeout {
		status = http.StatusInternalServerError
	}
	if meanings, listed := possibleMeanings[status]; listed {
		return slices.Contains(meanings, means)
	}
	return status < 300 || status >= 400
}

// hasOne reports whether a text has one of the wordings.
func hasOne(text string, wordings []string) bool {
	return slices.ContainsFunc(wordings, func(words string) bool {
		rest := text
		for piece := range strings.SplitSeq(words, "…") {
			_, behind, found := strings.Cut(rest, piece)
			if !found {
				return false
			}
			rest = behind
		}
		return true
	})
}
