package openai

import (
	"net/http"

	"github.com/lingserve/lingserve/web/wire/frame"
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

// AppendJSON appends {"error":{"message","type","param","code"}}.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = frame.Quote(dst, e.Message)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, e.Type()...)
	dst = append(dst, `","param":`...)
	dst = appendOptional(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendOptional(dst, e.Code)
	return append(dst, "}}"...)
}

func appendOptional(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	return frame.Quote(dst, text)
}

// refuse is the error of a member that does not fit. Its message says which, since clients show no more than that.
func refuse(param, message string) *Error {
	if param != "" {
		message = param + ": " + message
	}
	return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Param: param, Message: message}
}
