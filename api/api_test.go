package api_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/lingserve/lingserve/api"
)

func TestContractIsValidOpenAPI31AndItsExamplesFitTheirSchemas(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(api.Contract)
	if err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi is %q", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.IsOpenAPI31OrLater()); err != nil {
		t.Error(err)
	}
}
