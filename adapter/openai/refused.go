package openai

import (
	"net/http"
	"strings"

	"github.com/lingserve/lingserve/adapter"
	"github.com/lingserve/lingserve/adapter/wire"
)

// refused makes the error of an answer with another status than 200. Azure's deployments, endpoints and versions are things that
// others do not have, and each is told by words of its own.
func (p *provider) refused(r *wire.Refusal) *adapter.Error {
	e := p.Refused(r)
	if !p.Azure() {
		return e
	}
	report := wire.ReadReport(r.Body)
	switch {
	case r.Status == http.StatusNotFound && strings.Contains(report.Kind, "deploymentnotfound"):
		e.Message = p.Name() + " has no deployment of this name: models are asked by the names of their deployments; " +
			"a new one can be used after a few minutes"
	case r.Status == http.StatusNotFound:
		e.Message = p.Name() + " does not know this address: check the endpoint, of which there is one for each resource, and the version of the API"
	case r.Status == http.StatusBadRequest && strings.Contains(strings.ToLower(report.Message), "api version"):
		e.Message = p.Name() + " does not know this version of its API, or it lacks something that was asked for"
	case r.Status == http.StatusUnauthorized && p.Key() != "":
		// A key of another resource, or of another region's, is told in the same words.
		e.Message = p.Name() + " refused the key: check " + p.KeyName + ", and that it is of this endpoint"
	}
	return e
}
