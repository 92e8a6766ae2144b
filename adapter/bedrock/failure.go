package bedrock

import (
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// explain improves the error of an answer with another status than 200.
func (p *provider) explain(e *adapter.Error, r *wire.Refusal) {
	r.Body = p.auth.hide(r.Body)
	p.explainAuth(e, r.Header.Get("X-Amzn-Errortype")+string(r.Body))
}

// explainAuth says what to check where access is refused: the key, or the credentials, or what they may do.
func (p *provider) explainAuth(e *adapter.Error, said string) *adapter.Error {
	switch {
	case e.Code != adapter.CodeAuth:
	case e.Status != http.StatusUnauthorized && strings.Contains(strings.ToLower(said), "accessdenied"):
		e.Message = p.Name() + " denies access to this model: check the account's model access, the policy of " + p.KeyName + " or of the AWS credentials, and the region"
	case p.auth.key() == "":
		e.Message = p.Name() + " refused the AWS credentials: check that they are valid, or set " + p.KeyName
	}
	return e
}
