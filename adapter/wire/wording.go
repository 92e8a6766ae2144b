package wire

import (
	"net/http"
	"strings"
)

// meaning is what a failure means: one of what a caller, or who operates the server, does something else about.
type meaning int

const (
	unclear    meaning = iota
	filtered           // a filter stopped the request or the answer
	tooLong            // the request does not fit the model's context
	noCredit           // the account has no credit or quota left
	badKey             // the key is missing or wrong
	noAccess           // the key is right, and may not do this
	limited            // too many requests or tokens for now
	tooMuch            // more tokens in one request than the limit of a minute
	slow               // it took too long
	busy               // another request is in the way
	overloaded         // the server has too much to do
	failed             // the server has failed, perhaps of too much to do
	unknown            // no such model, or no such address
	badCall            // the model called a tool in a way that its server could not read
	badHistory         // calls and results of the request do not belong together
	refused            // something in the request is not taken
	redirect
)

// wording is one way in which a provider says something. code is looked for in the codes of an error, text in its message, both in small
// letters; where both are there, both must be. "…" stands for anything.
type wording struct {
	code, text string
	means      meaning
	says       string // our sentence, where there is a better one than the meaning's; % is the server
	bare       bool   // only where there is no status, which would say more
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
// that providers document, or that have been recorded or reported; a wrong meaning is worse than none, so each is as narrow as it can be.
var wordings = []wording{
	// A filter.
	{code: "content_filter", means: filtered},               // OpenAI, Azure, Moonshot
	{code: "content_policy", means: filtered},               // OpenAI
	{code: "responsibleaipolicyviolation", means: filtered}, // Azure
	{code: "data_inspection_failed", means: filtered},       // Qwen
	{code: "datainspectionfailed", means: filtered},         // Qwen
	{code: " 1301 ", means: filtered},                       // Z.ai
	{code: " 1026 ", means: filtered},                       // MiniMax, of the request
	{code: " 1027 ", means: filtered},                       // MiniMax, of the answer
	{text: "content management policy", means: filtered},    // Azure
	{text: "content filtering policy", means: filtered},     // Anthropic
	{text: "content exists risk", means: filtered},          // DeepSeek
	{text: "content violates usage guidelines", means: filtered},
	{text: "considered high risk", means: filtered},                   // Moonshot
	{text: "requires moderation…flagged", means: filtered},            // OpenRouter
	{text: "rejected as a result of our safety", means: filtered},     // OpenAI
	{text: "flagged as potentially violating", means: filtered},       // OpenAI
	{text: "blocked by…prohibited_content", means: filtered},          // Google
	{text: "input data may contain inappropriate", means: filtered},   // Qwen
	{text: "output data may contain inappropriate", means: filtered},  // Qwen
	{text: "blocked by your guardrail", means: filtered},              // Bedrock
	{text: "unsafe or sensitive content", means: filtered},            // Z.ai
	{text: "detected sensitive content", means: filtered},             // Z.ai
	{text: "input new_sensitive", means: filtered},                    // MiniMax
	{text: "output new_sensitive", means: filtered},                   // MiniMax
	{text: "content moderation", code: "permission", means: filtered}, // xAI

	// Limits by the minute speak of tokens, too, and are no lack of room. Those that a request cannot ever keep to come first.
	{text: "request too large…tokens per min", means: tooMuch}, // OpenAI, Groq
	{code: "perday", text: "quota", means: noCredit, says: saysQuota},
	{code: "resource_exhausted", text: "limit: 0,", means: noCredit, says: saysQuota}, // Google: not of this account's plan
	{code: "resource_exhausted", means: limited},                                      // Google
	{code: "engine_overloaded", means: overloaded},                                    // Moonshot
	{code: "capacity_exceeded", means: overloaded},                                    // Mistral
	{code: " 3505 ", means: overloaded},                                               // Mistral
	{code: "rate_limit", means: limited},
	{code: "ratelimit", means: limited},
	{code: "too_many_requests", means: limited},
	{code: "toomanyrequests", means: limited},
	{code: "limit_requests", means: limited},                  // Qwen
	{code: "limit_burst_rate", means: limited},                // Qwen
	{code: "throttling.allocationq", means: limited},          // Qwen, by the minute
	{code: "throttling", means: limited},                      // AWS, Qwen
	{code: " 1302 ", means: limited},                          // Z.ai
	{code: " 1303 ", means: limited},                          // Z.ai
	{code: " 1305 ", means: overloaded},                       // Z.ai
	{text: "please wait before trying again", means: limited}, // Bedrock: "Too many tokens, …"
	{text: "too many requests", means: limited},
	{text: "tokens per min", means: limited},
	{text: "requests per min", means: limited},
	{text: "rate limit", means: limited},

	// The context.
	{code: "context_length", means: tooLong},                          // OpenAI, Azure, Groq, Cerebras
	{code: "context_window_exceeded", means: tooLong},                 // Z.ai
	{code: "exceed_context_size", means: tooLong},                     // llama.cpp
	{code: "string_above_max_length", means: tooLong},                 // OpenAI
	{code: "too_many_tokens", means: tooLong},                         // Cohere
	{code: "too_many_prompt_tokens", means: tooLong},                  // Perplexity
	{code: "max_prompt_tokens_exceeded", means: tooLong},              // Copilot
	{code: "request_too_large", means: tooLong},                       // Anthropic
	{code: " 1261 ", means: tooLong},                                  // Z.ai
	{text: "context length", means: tooLong},                          // OpenAI, vLLM, DeepSeek, Mistral, Together, Fireworks, OpenRouter, Ollama
	{text: "context_length", means: tooLong},                          // proxies
	{text: "context window", means: tooLong},                          // OpenAI's Responses, MiniMax
	{text: "contextwindowexceeded", means: tooLong},                   // LiteLLM
	{text: "context size", means: tooLong},                            // llama.cpp, Lemonade
	{text: "exceed context limit", means: tooLong},                    // Anthropic, with what the answer may have
	{text: "maximum context", means: tooLong},                         // SGLang
	{text: "prompt is too long", means: tooLong},                      // Anthropic, Fireworks
	{text: "prompt too long", means: tooLong},                         // Ollama
	{text: "prompt exceeds max length", means: tooLong},               // Z.ai
	{text: "prompt token count…exceeds the limit", means: tooLong},    // Copilot
	{text: "maximum prompt length", means: tooLong},                   // xAI
	{text: "input is too long", means: tooLong},                       // Bedrock
	{text: "input tokens exceeded", means: tooLong},                   // Bedrock
	{text: "input tokens exceeds maximum length", means: tooLong},     // Bedrock
	{text: "input token count…exceeds the maximum", means: tooLong},   // Google
	{text: "tokens in request more than max tokens", means: tooLong},  // Anthropic's, at proxies
	{text: "too many input tokens", means: tooLong},                   // Bedrock
	{text: "too many tokens", means: tooLong},                         // Cohere
	{text: "length of all messages is too long", means: tooLong},      // Perplexity
	{text: "reduce the length of the messages", means: tooLong},       // Groq, Cerebras
	{text: "model token limit", means: tooLong},                       // Moonshot
	{text: "token length too long", means: tooLong},                   // Moonshot
	{text: "maximum model length", means: tooLong},                    // vLLM
	{text: "max_model_len", means: tooLong},                           // vLLM
	{text: "input length", means: tooLong},                            // Qwen, Poolside
	{text: "inputs tokens + max_new_tokens", means: tooLong},          // Hugging Face's server
	{text: "`inputs` tokens + `max_new_tokens`", means: tooLong},      // Hugging Face's server, Together
	{text: "prompt tokens…exceeds the max model len", means: tooLong}, // TensorRT-LLM
	{text: "maximum input length…tokens", means: tooLong},             // TensorRT-LLM

	// Money.
	{code: "insufficient_quota", means: noCredit},                                       // OpenAI
	{code: "insufficient_balance", means: noCredit},                                     // DeepSeek, MiniMax
	{code: "exceeded_current_quota", means: noCredit},                                   // Moonshot
	{code: "billing", means: noCredit},                                                  // OpenAI, Anthropic
	{code: "arrearage", means: noCredit},                                                // Qwen
	{code: "freetieronly", means: noCredit},                                             // Qwen
	{code: " 1113 ", means: noCredit},                                                   // Z.ai
	{text: "credit balance is too low", means: noCredit},                                // Anthropic, of a 400
	{text: "insufficient balance", means: noCredit},                                     // DeepSeek, MiniMax, Z.ai
	{text: "insufficient credits", means: noCredit},                                     // OpenRouter
	{text: "requires more credits", means: noCredit},                                    // OpenRouter
	{text: "exceeded your current quota", means: noCredit},                              // OpenAI, through proxies
	{text: "used all available credits", means: noCredit},                               // xAI
	{text: "exhausted its credits", means: noCredit},                                    // xAI
	{text: "monthly spending limit", means: noCredit, says: saysQuota},                  // xAI
	{text: "key limit exceeded", means: noCredit, says: saysQuota},                      // OpenRouter
	{text: "reached your specified api usage limits", means: noCredit, says: saysQuota}, // Anthropic, of a 400
	{code: "servicequotaexceeded", means: noCredit, says: saysQuota},                    // Bedrock
	{code: "billing_disabled", means: noCredit},                                         // Google

	// Where one is, and where a model is.
	{text: "user location is not supported", means: noAccess, says: saysPlace},              // Google
	{code: "unsupported_country_region_territory", means: noAccess, says: saysPlace},        // OpenAI
	{text: "country, region, or territory not supported", means: noAccess, says: saysPlace}, // OpenAI
	{text: "not available in your region", means: noAccess, says: saysPlace},                // OpenRouter, Groq
	{text: "not available in your country", means: noAccess, says: saysPlace},               //
	{text: "access…from unsupported countries", means: noAccess, says: saysPlace},           // Bedrock, of Anthropic's models
	{text: "on-demand throughput…supported", means: refused, says: saysProfile},             // Bedrock
	{text: "model…not supported in this region", means: unknown, says: saysRegion},          // Bedrock
	{text: "not available in this region", means: unknown, says: saysRegion},                // Google, Azure
	{text: "not servable in region", means: unknown, says: saysRegion},                      // Vertex AI
	// Bedrock:
	{text: "don't have access to the model", means: noAccess, says: "% does not let this account use the model: ask it for access"},

	// The model's name.
	{code: "model_not_found", means: unknown},                      // OpenAI, Groq, Cerebras
	{code: "deploymentnotfound", means: unknown},                   // Azure
	{code: "resourcenotfoundexception", means: unknown},            // Bedrock
	{code: "not_found_error", means: unknown},                      // Anthropic
	{code: " 1211 ", means: unknown},                               // Z.ai
	{text: "model not exist", means: unknown},                      // DeepSeek
	{text: "invalid model", code: "invalid_model", means: unknown}, // Mistral
	{text: "provided model identifier is invalid", means: unknown}, // Bedrock
	{text: "is not a valid model id", means: unknown},              // OpenRouter
	{text: "unknown model", means: unknown},                        // MiniMax

	// The key.
	{code: "invalid_api_key", means: badKey},
	{code: "api_key_invalid", means: badKey},             // Google
	{code: "authentication", means: badKey},              // Anthropic, DeepSeek
	{code: "unauthenticated", means: badKey},             // Google
	{code: "unrecognizedclientexception", means: badKey}, // AWS
	{code: "invalidsignatureexception", means: badKey},   // AWS
	{code: "expiredtokenexception", means: badKey},       // AWS
	// Google:
	{code: "service_disabled", means: noAccess, says: "% says that its API is not enabled in this account's project: enable it"},
	{code: "permission", means: badKey},        // Anthropic, Google
	{text: "incorrect api key", means: badKey}, // OpenAI, xAI, of a 400
	{text: "api key not valid", means: badKey}, // Google, of a 400
	{text: "api key expired", means: badKey},   // Google, of a 400
	{text: "invalid api key", means: badKey},   // Mistral, Groq, MiniMax

	// Calls of tools.
	{code: "tool_use_failed", means: badCall},                                    // Groq
	{code: "malformed_function_call", means: badCall},                            // Google
	{text: "invalid sequence as part of tooluse", means: badCall},                // Bedrock
	{text: "must be followed by tool messages", means: badHistory},               // OpenAI
	{text: "must be a response to a prec", means: badHistory},                    // OpenAI: "messages with role 'tool' …"
	{text: "without `tool_result` blocks", means: badHistory},                    // Anthropic
	{text: "unexpected `tool_use_id`", means: badHistory},                        // Anthropic
	{text: "no tool output found for function call", means: badHistory},          // OpenAI's Responses
	{text: "no tool call found for function call output", means: badHistory},     // OpenAI's Responses
	{text: "number of function response parts", means: badHistory},               // Google
	{text: "function call turn comes immediately after", means: badHistory},      // Google
	{text: "same number of function calls and responses", means: badHistory},     // Mistral
	{text: "toolresult blocks…exceeds the number of tooluse", means: badHistory}, // Bedrock
	{text: "expected toolresult blocks", means: badHistory},                      // Bedrock

	// What a model cannot do.
	{text: "does not support tools", means: refused, says: saysTools},                // Ollama, Groq
	{text: "endpoints found that support tool use", means: refused, says: saysTools}, // OpenRouter
	{text: "tool use in streaming mode", means: refused, says: saysTools},            // Bedrock
	{text: "does not support tool use", means: refused, says: saysTools},             // Bedrock
	// vLLM:
	{text: "tool choice requires --enable-auto-tool-choice", means: refused, says: "% takes tools only where it is started with --enable-auto-tool-choice and a --tool-call-parser"},
	{text: "function calling is not enabled", means: refused, says: saysTools},                // Google
	{text: "does not support image", means: refused, says: saysImages},                        // Groq, xAI, Together
	{text: "image input modality is not enabled", means: refused, says: saysImages},           // Google
	{text: "endpoints found that support image input", means: refused, says: saysImages},      // OpenRouter
	{text: "image_url is only supported by certain models", means: refused, says: saysImages}, // OpenAI
	{text: "image input is not supported", means: refused, says: saysImages},                  // llama.cpp, Mistral
	{text: "is not a multimodal model", means: refused, says: saysImages},                     // vLLM
	{text: "unknown variant `image_url`", means: refused, says: saysImages},                   // DeepSeek
	{text: "doesn't support the image", means: refused, says: saysImages},                     // Bedrock
	// Groq:
	{code: "json_validate_failed", means: refused, says: "the model's answer did not fit the JSON Schema: simplify it, or ask for any JSON"},
	{text: "invalid schema for response_format", means: refused, says: saysSchema},                    // OpenAI
	{text: "schema produces a constraint that has too many states", means: refused, says: saysSchema}, // Google
	{text: "schema is too complex", means: refused, says: saysSchema},                                 // Anthropic

	// The server.
	{code: "overloaded", means: overloaded},                                                                 // Anthropic, 529 and in streams
	{code: "serviceunavailableexception", means: overloaded},                                                // Bedrock
	{code: "modelnotreadyexception", means: overloaded},                                                     // Bedrock
	{text: "model is overloaded", means: overloaded},                                                        // Google
	{text: "currently overloaded", means: overloaded},                                                       // OpenAI, Together
	{text: "high demand", means: overloaded},                                                                // Google
	{text: "loading model", means: overloaded, says: "% is still loading the model: try again in a moment"}, // llama.cpp
	{code: "timeout", means: slow},
	{code: "deadline_exceeded", means: slow},  // Google
	{code: "modelerror", means: failed},       // Bedrock
	{code: "modelstreamerror", means: failed}, // Bedrock
	{code: "server_error", bare: true, means: failed},
	{code: "unavailable", bare: true, means: failed},
	{code: "internal", bare: true, means: failed},
	{code: " api_error ", bare: true, means: failed}, // Anthropic
	{code: "invalid_request", bare: true, means: refused},
}

// meant finds the wording that a report has. What a status says for certain, no wording changes.
func meant(status int, r *Report) (meaning, string) {
	if status == 0 {
		status = r.Status
	}
	code, text := r.Kind+" ", strings.ToLower(r.Message)
	for i := range wordings {
		w := &wordings[i]
		if has(code, w.code) && has(text, w.text) && possible(w.means, status) && (!w.bare || status == 0) {
			return w.means, w.says
		}
	}
	return unclear, ""
}

// possible says whether an answer with this status can mean that.
func possible(means meaning, status int) bool {
	switch status {
	case 0, http.StatusOK, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return true
	case http.StatusUnauthorized:
		return means == badKey || means == noAccess || means == noCredit
	case http.StatusPaymentRequired:
		return means == noCredit
	case http.StatusForbidden:
		return means != tooLong && means != slow && means != failed && means != refused
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return means == slow
	case http.StatusConflict:
		return false
	case http.StatusRequestEntityTooLarge:
		return means == tooLong || means == limited || means == tooMuch
	case http.StatusTooManyRequests:
		return means == limited || means == tooMuch || means == noCredit || means == overloaded
	}
	if status >= 500 { // what a server says when it fails is not always about the request
		return means == tooLong || means == limited || means == overloaded || means == failed || means == slow || means == filtered || means == badCall
	}
	return status >= 400
}

// has says whether a text has the words in their order, with anything in the place of "…".
func has(text, words string) bool {
	for piece := range strings.SplitSeq(words, "…") {
		at := strings.Index(text, piece)
		if at < 0 {
			return false
		}
		text = text[at+len(piece):]
	}
	return true
}
