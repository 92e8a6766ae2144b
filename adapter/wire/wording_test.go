package wire_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/adaptertest"
	"github.com/lingserve/lingserve/adapter/wire"
)

// What a failure is to say; each stands for a code, and for whether another try may help.
const (
	sayTooLong    = "the request is too long for the model"
	sayFilter     = "content filter"
	sayCredit     = "has no credit left"
	sayQuota      = "quota is used up"
	sayKey        = "refused the key"
	sayNoRight    = "does not let this account"
	sayRate       = "limits the rate of requests"
	sayTooMuch    = "exceeds the account's tokens per minute"
	sayOverload   = "is overloaded"
	sayFailed     = "failed or is overloaded"
	sayUnknown    = "does not know this model"
	sayPlace      = "does not serve the country or region"
	sayRegion     = "does not have this model in this region"
	sayProfile    = "only through an inference profile"
	sayBadCall    = "called a tool in an invalid way"
	sayHistory    = "refused the tool calls and results of the history"
	sayTools      = "does not support tools"
	sayImages     = "does not support such images"
	saySchema     = "does not support the JSON Schema"
	sayRefused    = "may not support a part of it"
	sayUnexpected = "unexpected status"
	sayLoading    = "still loading the model"
	sayModel      = "does not let this account use the model"
	sayEnable     = "its API is not enabled"
	sayPage       = "refused access with a web page"
)

var codesOf = map[string]struct {
	code      string
	retryable bool
}{
	sayTooLong: {adapter.CodeInvalid, false},
	sayCredit:  {adapter.CodeRateLimited, false}, sayQuota: {adapter.CodeRateLimited, false}, sayTooMuch: {adapter.CodeRateLimited, false},
	sayKey: {adapter.CodeAuth, false}, sayNoRight: {adapter.CodeAuth, false}, sayPlace: {adapter.CodeAuth, false},
	sayRate: {adapter.CodeRateLimited, true}, sayOverload: {adapter.CodeUnavailable, true}, sayFailed: {adapter.CodeUnavailable, true},
	sayBadCall: {adapter.CodeProtocol, true},
	sayLoading: {adapter.CodeUnavailable, true},
	sayModel:   {adapter.CodeAuth, false}, sayEnable: {adapter.CodeAuth, false}, sayPage: {adapter.CodeAuth, false},
}

func checkMeaning(t *testing.T, e *adapter.Error, says string) {
	t.Helper()
	want, ok := codesOf[says]
	if !ok {
		want.code = adapter.CodeProtocol
	}
	if !strings.Contains(e.Message, says) || e.Code != want.code || e.Retryable != want.retryable || e.ContextLength != (says == sayTooLong) {
		t.Errorf("%s, retryable %v, too long %v: %q; want %s, %v: %q", e.Code, e.Retryable, e.ContextLength, e.Message, want.code, want.retryable, says)
	}
}

func message(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"error":{"message":` + string(quoted) + `}}`
}

// MO-16: each wording of "the request does not fit the model's context".
func TestEachWordingOfTooLongIsTooLong(t *testing.T) {
	for _, row := range []struct {
		provider string
		status   int
		body     string
	}{
		{"OpenAI", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
		{"OpenAI, with what the answer may have", 400, message("This model's maximum context length is 4097 tokens. However, you requested 4295 tokens (3245 in the messages, 1050 in the completion).")},
		{"OpenAI Responses", 400, message("Your input exceeds the context window of this model. Please adjust your input and try again.")},
		{"OpenAI, one string", 400, `{"error":{"message":"Invalid 'input[1].content': string too long.","type":"invalid_request_error","param":"input[1].content","code":"string_above_max_length"}}`},
		{"OpenAI Responses, as an event", 0, `{"type":"response.failed","response":{"status":"failed","error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}`},
		{"Azure", 400, `{"error":{"message":"This model's maximum context length is 8192 tokens, however you requested 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
		{"Anthropic", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}`},
		{"Anthropic, with what the answer may have", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 178959 + 64000 > 200000, decrease input length or ` + "`max_tokens`" + ` and try again"}}`},
		{"Anthropic, in bytes", 413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`},
		{"Gemini", 400, `{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`},
		{"Gemini, in a list", 400, `[{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed 1048576.","status":"INVALID_ARGUMENT"}}]`},
		{"xAI", 400, `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`},
		{"Z.ai", 400, `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`},
		{"Z.ai, by name", 0, `{"error":{"code":"model_context_window_exceeded","message":"The model has reached its context window limit."}}`},
		{"Copilot", 400, `{"error":{"message":"prompt token count of 138898 exceeds the limit of 64000","code":"model_max_prompt_tokens_exceeded"}}`},
		{"Copilot, without a code", 400, `{"error":{"message":"prompt token count of 93854 exceeds the limit of 90000","param":"","code":"","type":""}}`},
		{"Perplexity", 400, `{"error":{"message":"The total length of all messages is too long.","type":"too_many_prompt_tokens","code":400}}`},
		{"Mistral", 400, `{"object":"error","message":"Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}`},
		{"Groq", 400, `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`},
		{"vLLM", 400, `{"object":"error","message":"This model's maximum context length is 1536 tokens. However, your request has 4176 input tokens. Please reduce the length of the input messages.","type":"BadRequestError","param":null,"code":400}`},
		{"vLLM, newer", 400, `{"error":{"message":"The decoder prompt (length 163840) is longer than the maximum model length of 131072. Make sure that ` + "`max_model_len`" + ` is no smaller than the number of text tokens plus multimodal tokens.","type":"BadRequestError","param":null,"code":400}}`},
		{"vLLM, of max_tokens", 400, message("'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).")},
		{"SGLang", 400, `{"object":"error","message":"Requested token count exceeds the model's maximum context length of 32768 tokens.","type":"BadRequest","param":null,"code":400}`},
		{"llama.cpp", 400, `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4100,"n_ctx":4096}}`},
		{"llama.cpp, older", 500, message("the request exceeds the available context size. try increasing the context size or enable context shift")},
		{"LM Studio", 400, message("The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input")},
		{"Lemonade", 500, message("Context size has been exceeded.")},
		{"Ollama", 400, `{"error":"prompt too long; exceeded max context length by 12 tokens"}`},
		{"Ollama, of embeddings", 400, `{"error":"the input length exceeds the context length"}`},
		{"Bedrock", 400, `{"message":"Input is too long for requested model."}`},
		{"Bedrock, of Nova", 400, `{"message":"The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again."}`},
		{"Bedrock, of Llama", 400, `{"Message":"This model's maximum context length is 8192 tokens. Please reduce the length of the prompt"}`},
		{"Bedrock, of Anthropic", 400, `{"message":"The model returned the following errors: prompt is too long: 203102 tokens > 200000 maximum"}`},
		{"Cohere", 400, `{"error_type":"TOO_MANY_TOKENS","message":"too many tokens: size limit exceeded by 25836 tokens. Try using shorter or fewer inputs."}`},
		{"DeepSeek", 400, `{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000 tokens (62000 in the messages, 8000 in the completion). Please reduce the length of the messages or completion.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`},
		{"Moonshot", 400, `{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)","type":"invalid_request_error"}}`},
		{"Moonshot, older", 400, message("Invalid request: Input token length too long")},
		{"MiniMax", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"invalid params, context window exceeds limit (2013)"}}`},
		{"MiniMax, of its own", 400, `{"base_resp":{"status_code":2013,"status_msg":"invalid params, context window exceeds limit"}}`},
		{"Together", 422, `{"id":"x","error":{"message":"The input (300000 tokens) is longer than the model's context length (131072 tokens).","type":"invalid_request_error","param":null,"code":null}}`},
		{"Together, older", 422, message("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`")},
		{"Fireworks", 400, `{"error":{"object":"error","type":"invalid_request_error","message":"The prompt is too long: 200000, model maximum context length: 131072"}}`},
		{"Cerebras", 400, `{"message":"Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}`},
		{"Cerebras, without a body", 413, ``},
		{"OpenRouter", 400, `{"error":{"message":"This endpoint's maximum context length is 200000 tokens. However, you requested about 250021 tokens (250021 of text input). Please reduce the length of either one.","code":400,"metadata":{"provider_name":null}}}`},
		{"OpenRouter, in its provider's words", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 213462 tokens > 200000 maximum\"}}","provider_name":"Anthropic"}}}`},
		{"Qwen", 400, `{"error":{"message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]","type":"invalid_request_error","param":null,"code":"invalid_parameter_error"}}`},
		{"a proxy", 413, `<html><head><title>413 Request Entity Too Large</title></head></html>`},
		{"LiteLLM", 400, message("litellm.ContextWindowExceededError: XaiException - the prompt does not fit")},
		{"written as text inside", 400, message(`{"error": {"code": 400, "message": "The input token count (11) exceeds the maximum number of tokens allowed (10).", "status": "INVALID_ARGUMENT"}}`)},
	} {
		t.Run(row.provider, func(t *testing.T) {
			checkMeaning(t, server(canary).Failure(row.status, wire.ReadReport([]byte(row.body))), sayTooLong)
			if row.status == 0 {
				return
			}
			// The same words with a status that means something else are no reason to give up what was said before (AG-05).
			for status, says := range map[int]string{401: sayKey, 403: sayKey, 429: sayRate} {
				e := server(canary).Failure(status, wire.ReadReport([]byte(row.body)))
				if e.ContextLength || !strings.Contains(e.Message, says) && !strings.Contains(e.Message, "refused access") {
					t.Errorf("%d: %q", status, e.Message)
				}
			}
		})
	}
}

// MO-16: what else providers say, each by its own words.
func TestEachWordingHasItsMeaning(t *testing.T) {
	aws := func(kind string) http.Header {
		return http.Header{"X-Amzn-Errortype": {kind + ":http://internal.amazon.com/coral/com.amazon.bedrock/"}}
	}
	gemini := func(quota string) string {
		return `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: x, limit: 250\nPlease retry in 48.9s.","status":"RESOURCE_EXHAUSTED","details":[` +
			`{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaMetric":"x","quotaId":"` + quota + `"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}`
	}
	for _, row := range []struct {
		name   string
		status int
		header http.Header
		body   string
		says   string
		after  time.Duration
	}{
		// Money, and the rate.
		{"OpenAI: no quota", 429, nil, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, sayCredit, 0},
		{"Gemini: by the minute", 429, nil, gemini("GenerateContentInputTokensPerModelPerMinute-PaidTier"), sayRate, 7 * time.Second},
		{"Gemini: by the day", 429, nil, gemini("GenerateRequestsPerDayPerProjectPerModel-FreeTier"), sayQuota, 0},
		{"Gemini: not of the plan", 429, nil, strings.Replace(gemini("PerMinute"), "limit: 250", "limit: 0, model: x", 1), sayQuota, 0},
		{"Vertex AI", 429, nil, `[{"error":{"code":429,"message":"Resource exhausted. Please try again later.","status":"RESOURCE_EXHAUSTED"}}]`, sayRate, 0},
		{"Anthropic: no credit, of a 400", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}`, sayCredit, 0},
		{"Anthropic: a limit of one's own", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`, sayQuota, 0},
		{"Anthropic: the rate", 429, http.Header{"Retry-After": {"9"}}, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 50,000 input tokens per minute."}}`, sayRate, 9 * time.Second},
		{"DeepSeek: no balance", 402, nil, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, sayCredit, 0},
		{"Z.ai: no balance", 429, nil, `{"error":{"code":"1113","message":"Insufficient balance or no resource package. Please recharge."}}`, sayCredit, 0},
		{"Z.ai: too many at once", 429, nil, `{"error":{"code":"1302","message":"High concurrency usage of this API, please reduce concurrency"}}`, sayRate, 0},
		{"MiniMax: no balance", 200, nil, `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, sayCredit, 0},
		{"Moonshot: no balance", 429, nil, `{"error":{"message":"Your account is not active, please check your plan and billing details","type":"exceeded_current_quota_error"}}`, sayCredit, 0},
		{"Moonshot: overloaded", 429, nil, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}`, sayOverload, 0},
		{"xAI: no credit", 403, nil, `{"code":"The caller does not have permission to execute the specified operation","error":"Your team x has either used all available credits or reached its monthly spending limit."}`, sayCredit, 0},
		{"OpenRouter: no credit", 402, nil, `{"error":{"message":"This request requires more credits, or fewer max_tokens.","code":402}}`, sayCredit, 0},
		{"OpenRouter: a key's limit", 403, nil, `{"error":{"message":"Key limit exceeded (total limit).","code":403}}`, sayQuota, 0},
		{"OpenRouter: its provider's rate", 429, nil, `{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"x:free is temporarily rate-limited upstream. Please retry shortly","provider_name":"Y"}}}`, sayRate, 0},
		{"Groq: the rate", 429, nil, message("Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5034, Requested 1443. Please try again in 4.77s."), sayRate, 0},
		{"Groq: by the day", 429, nil, message("Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 7m12s."), sayRate, 0},
		{"Groq: too large for a minute", 413, nil, `{"error":{"message":"Request too large for model m in organization o on tokens per minute (TPM): Limit 6000, Requested 12328, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`, sayTooMuch, 0},
		{"OpenAI: too large for a minute", 429, nil, `{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, sayTooMuch, 0},
		{"Azure: the rate", 429, nil, `{"error":{"code":"429","message":"Requests have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 20 seconds."}}`, sayRate, 0},
		{"Bedrock: the rate, which speaks of tokens", 429, aws("ThrottlingException"), `{"message":"Too many tokens, please wait before trying again."}`, sayRate, 0},
		{"Bedrock: the rate, of a 400", 400, aws("ThrottlingException"), `{"message":"Too many tokens per day, please wait before trying again."}`, sayRate, 0},
		{"Bedrock: quota", 400, aws("ServiceQuotaExceededException"), `{"message":"The number of requests exceeds the service quota."}`, sayQuota, 0},
		{"Mistral: no capacity", 429, nil, `{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","param":null,"code":"3505"}`, sayOverload, 0},
		{"Qwen: the rate", 429, nil, `{"error":{"code":"limit_requests","message":"You exceeded your current requests list.","type":"limit_requests"}}`, sayRate, 0},

		// Overload.
		{"Anthropic: overloaded", 529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, sayOverload, 0},
		{"Anthropic: overloaded, as an event", 0, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, sayOverload, 0},
		{"529 without words", 529, nil, ``, sayOverload, 0},
		{"Anthropic: its own error, as an event", 0, nil, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`, sayFailed, 0},
		{"Gemini: overloaded", 503, nil, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`, sayOverload, 0},
		{"llama.cpp: loading", 503, nil, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, sayLoading, 0},
		{"Bedrock: overloaded", 503, aws("ServiceUnavailableException"), `{"message":"Bedrock is unable to process your request."}`, sayOverload, 0},
		{"OpenAI Responses: failed", 0, nil, `{"type":"response.failed","response":{"error":{"code":"server_error","message":"The model failed to generate a response."}}}`, sayFailed, 0},

		// The key, and where it may be used.
		{"Gemini: the key, of a 400", 400, nil, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, sayKey, 0},
		{"xAI: the key, of a 400", 400, nil, `{"code":"invalid-argument","error":"Incorrect API key provided. You can obtain an API key from https://console.x.ai."}`, sayKey, 0},
		{"Bedrock: the key", 403, aws("UnrecognizedClientException"), `{"message":"The security token included in the request is invalid."}`, sayKey, 0},
		{"Bedrock: the model", 403, aws("AccessDeniedException"), `{"message":"You don't have access to the model with the specified model ID."}`, sayModel, 0},
		{"Google: not enabled", 403, nil, `{"error":{"code":403,"message":"Generative Language API has not been used in project 1 before or it is disabled.","status":"PERMISSION_DENIED","details":[{"reason":"SERVICE_DISABLED"}]}}`, sayEnable, 0},
		{"Gemini: the place", 400, nil, `{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}`, sayPlace, 0},
		{"OpenAI: the place", 403, nil, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported","param":null,"type":"request_forbidden"}}`, sayPlace, 0},
		{"OpenRouter: the place", 403, nil, message("This model is not available in your region."), sayPlace, 0},
		{"Bedrock: the region", 400, aws("ValidationException"), `{"message":"The model anthropic.x is not supported in this region."}`, sayRegion, 0},
		{"Bedrock: the profile", 400, aws("ValidationException"), `{"message":"Invocation of model ID anthropic.claude-x with on-demand throughput isn’t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}`, sayProfile, 0},
		{"a page", 403, nil, `<html><title>Attention Required!</title>You have been rate limited</html>`, sayPage, 0},

		// The model.
		{"OpenAI: the model", 404, nil, `{"error":{"message":"The model x does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, sayUnknown, 0},
		{"OpenAI: an address", 404, nil, `{"error":{"message":"Invalid URL (POST /chat/completions)","type":"invalid_request_error","param":null,"code":null}}`, sayUnknown, 0},
		{"OpenAI: the model, of a project", 403, nil, `{"error":{"message":"Project p does not have access to model m","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, sayUnknown, 0},
		{"DeepSeek: the model, of a 400", 400, nil, `{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, sayUnknown, 0},
		{"Bedrock: the model, of a 400", 400, aws("ValidationException"), `{"message":"The provided model identifier is invalid."}`, sayUnknown, 0},
		{"OpenRouter: the model, of a 400", 400, nil, `{"error":{"message":"foo/bar is not a valid model ID","code":400}}`, sayUnknown, 0},
		{"Gemini: the model", 404, nil, `{"error":{"code":404,"message":"models/x is not found for API version v1beta","status":"NOT_FOUND"}}`, sayUnknown, 0},

		// Filters.
		{"Azure", 400, nil, `{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"jailbreak":{"filtered":true,"detected":true}}}}}`, sayFilter, 0},
		{"Azure, by the inner code", 400, nil, `{"error":{"message":"no","code":"BadRequest","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, sayFilter, 0},
		{"Anthropic", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content filtering policy"}}`, sayFilter, 0},
		{"DeepSeek", 400, nil, message("Content Exists Risk"), sayFilter, 0},
		{"Qwen", 400, nil, `{"error":{"code":"data_inspection_failed","message":"Input data may contain inappropriate content."}}`, sayFilter, 0},
		{"Z.ai", 400, nil, `{"error":{"code":"1301","message":"The system detected potentially unsafe or sensitive content in input or generation."}}`, sayFilter, 0},
		{"xAI", 403, nil, `{"code":"The caller does not have permission to execute the specified operation","error":"Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE"}`, sayFilter, 0},
		{"Moonshot", 400, nil, `{"error":{"message":"The request was rejected because it was considered high risk","type":"content_filter"}}`, sayFilter, 0},
		{"OpenRouter", 403, nil, `{"error":{"message":"x requires moderation. Your input was flagged for \"violence\".","code":403,"metadata":{"reasons":["violence"],"flagged_input":"…"}}}`, sayFilter, 0},

		// Tools.
		{"Groq: a call", 400, nil, `{"error":{"message":"Failed to call a function. Please adjust your prompt.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"<function=x"}}`, sayBadCall, 0},
		{"Bedrock: a call", 424, aws("ModelErrorException"), `{"message":"Model produced invalid sequence as part of ToolUse. Please refer to the model tool use troubleshooting guide."}`, sayBadCall, 0},
		{"OpenAI: a call without a result", 400, nil, message("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: c1"), sayHistory, 0},
		{"OpenAI: a result without a call", 400, nil, message("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."), sayHistory, 0},
		{"Anthropic: a call without a result", 400, nil, message("messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."), sayHistory, 0},
		{"Gemini: results without calls", 400, nil, message("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."), sayHistory, 0},
		{"Mistral: calls without results", 400, nil, `{"object":"error","message":"Not the same number of function calls and responses","type":"invalid_request_message_order","code":"3230"}`, sayHistory, 0},
		{"Ollama: no tools", 400, nil, `{"error":"registry.ollama.ai/library/gemma:2b does not support tools"}`, sayTools, 0},
		{"OpenRouter: no tools", 404, nil, `{"error":{"message":"No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs","code":404}}`, sayTools, 0},
		{"vLLM: no tools", 400, nil, `{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}`, "--enable-auto-tool-choice", 0},
		{"OpenRouter: no images", 404, nil, `{"error":{"message":"No endpoints found that support image input","code":404}}`, sayImages, 0},
		{"vLLM: no images", 400, nil, `{"object":"error","message":"m is not a multimodal model","code":400}`, sayImages, 0},
		{"OpenAI: a schema", 400, nil, `{"error":{"message":"Invalid schema for response_format 'x': In context=(), 'additionalProperties' is required to be supplied and to be false.","type":"invalid_request_error","param":"response_format","code":null}}`, saySchema, 0},

		// Parameters: by a name that we know, or by none.
		{"OpenAI", 400, nil, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, "does not accept max_tokens as", 0},
		{"Anthropic", 400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for x"}}`, sayRefused, 0},
		{"Gemini", 400, nil, message(`Invalid JSON payload received. Unknown name "responseSchema" at 'generation_config': Cannot find field.`), sayRefused, 0},
		{"xAI", 400, nil, `{"code":"invalid-argument","error":"Argument not supported on this model: presencePenalty"}`, sayRefused, 0},
		{"Mistral", 422, nil, `{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":1}]}`, sayRefused, 0},
		{"one that is none of ours", 400, nil, message("Unsupported parameter: 'CANARY'"), sayRefused, 0},

		// Words that mean nothing by themselves.
		{"a vague 400", 400, nil, `{"error":{"message":"Bad Request"}}`, sayRefused, 0},
		{"nothing at all", 400, nil, ``, sayRefused, 0},
		{"too many output tokens", 400, nil, message("Expected a value below 4096 for the number of output tokens"), sayRefused, 0},
		{"a teapot", 418, nil, message("short and stout"), sayUnexpected, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := server(canary).Refused(&wire.Refusal{Status: row.status, Header: row.header, Body: []byte(row.body)})
			if row.status == 0 {
				e = server(canary).Failed([]byte(row.body))
			}
			checkMeaning(t, e, row.says)
			if row.says == sayRate && e.RetryAfter != row.after {
				t.Errorf("another try after %v, want %v", e.RetryAfter, row.after)
			}
			if strings.Contains(e.Message, "CANARY") {
				t.Error(e.Message)
			}
			// MO-17: what the provider said is there for who operates the server.
			if row.body != "" && !strings.Contains(e.Cause.Error(), row.body[:min(len(row.body), 40)]) {
				t.Errorf("cause %q", e.Cause)
			}
		})
	}
}

// MO-16: each recorded error means what its provider meant.
func TestEachRecordedErrorHasItsMeaning(t *testing.T) {
	want := map[string]string{ // by what the recording is of
		"raises_app": sayKey, "context-specific_api_keys": sayKey, "handles_co": sayTooLong, "handles_cont": sayTooLong, "handles_context": sayTooLong,
	}
	limited := []string{"generativelanguage-googleapis-com", "rubyllm-services-ai-azure-com"} // met a limit of the minute before that of the context
	n := 0
	for _, r := range adaptertest.Recordings(t, "") {
		if r.Status < 400 {
			continue
		}
		n++
		t.Run(r.Name, func(t *testing.T) {
			says := ""
			for part, s := range want {
				if strings.Contains(r.Name, part) {
					says = s
				}
			}
			for _, host := range limited {
				if strings.HasPrefix(r.Name, host+"/") && says == sayTooLong {
					says = sayRate
				}
			}
			e := server(canary).Refused(&wire.Refusal{Status: r.Status, Body: r.Body})
			checkMeaning(t, e, says)
			if says == sayRate && strings.Contains(string(r.Body), "retryDelay") && e.RetryAfter == 0 {
				t.Errorf("%s", fmt.Sprint("it does not say when to come back: ", e.Cause))
			}
		})
	}
	if n == 0 {
		t.Error("there is no recorded error")
	}
}
