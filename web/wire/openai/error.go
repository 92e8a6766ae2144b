package openai

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/lingserve/lingserve/internal/rawjson"
	"github.com/lingserve/lingserve/web/wire"
)

// Error is an error as OpenAI's clients know it.
type Error struct {
	Status  int
	Message string
	Code    string
	Param   string // the member of the request that is wrong; "" for none
}

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

// errorOf is a problem as OpenAI's clients know it. Its message says which member is wrong, since they show no more than that.
func errorOf(p *wire.Problem) *Error {
	e := &Error{Status: p.Status, Code: p.Code, Message: p.Detail}
	if len(p.Errors) > 0 && p.Errors[0].Pointer != "" {
		e.Param = paramOf(p.Errors[0].Pointer)
		if p.Errors[0].Detail != p.Detail { // else the sentence stands by itself
			e.Message = e.Param + ": " + p.Errors[0].Detail
		}
	}
	return e
}

// paramOf writes a JSON Pointer as these clients know places: messages[0].content.
func paramOf(pointer string) string {
	var b strings.Builder
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch _, err := strconv.Atoi(token); {
		case err == nil:
			b.WriteString("[" + token + "]")
		case b.Len() > 0:
			b.WriteString("." + token)
		default:
			b.WriteString(token)
		}
	}
	return b.String()
}
