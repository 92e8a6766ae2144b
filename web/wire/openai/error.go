package openai

import (
	"net/http"

	"github.com/lingserve/lingserve/internal/rawjson"
)

// Error is an error as OpenAI's clients know it.
type Error struct {
	Status  int
	Message string
	Code    string
	Param   string // the member of the request that is wrong; "" for none
}

func (e *Error) Error() string { return e.Message }

// Type is the class that an error of this status is of.
func (e *Error) Type() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "authentication_error"
	case e.Status == http.StatusForbidden:
		return "permission_error"
	case e.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.Status >= 500, e.Status == http.StatusFailedDependency: // of the model's server, or of its answer
		return "server_error"
	}
	return "invalid_request_error"
}

// MarshalJSON returns {"error":{"message","type","param","code"}}.
func (e *Error) MarshalJSON() ([]byte, error) {
	type body struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	}
	return rawjson.MustMarshal(map[string]body{"error": {e.Message, e.Type(), optional(e.Param), optional(e.Code)}}), nil
}

// optional returns nil for an empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// refuse is the error of a member that does not fit. Its message says which, since clients show no more than that.
func refuse(param, message string) *Error {
	if param != "" {
		message = param + ": " + message
	}
	return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Param: param, Message: message}
}
