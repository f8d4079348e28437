package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// printed is a value with its ways to be printed; all show the same value.
type printed struct {
	value any
	// names are for -o name.
	names []string
	text  func(*page)
}

// emit prints a value as the user wants it.
func (t *tool) emit(p printed) error {
	if t.watching {
		again := t.printed != ""
		if news, err := t.isNews(p.value); err != nil || !news {
			return err
		}
		if again {
			if err := t.separate(); err != nil {
				return err
			}
		}
	}
	switch {
	case t.output == "json":
		text, err := json.MarshalIndent(p.value, "", "  ")
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		return t.print(string(text) + "\n")
	case t.output == "yaml":
		text, err := yaml.Marshal(p.value)
		if err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		return t.print(string(text))
	case t.output == "name":
		if len(p.names) == 0 {
			return nil
		}
		return t.print(clean(strings.Join(p.names, "\n")) + "\n")
	case strings.HasPrefix(t.output, "jsonpath="):
		return t.jsonPath(p.value, strings.TrimPrefix(t.output, "jsonpath="))
	}
	page := t.page()
	p.text(page)
	return t.flush(page)
}

func (t *tool) print(text string) error {
	if _, err := fmt.Fprint(t.streams.Out, text); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	return nil
}

// jsonPath prints what the template finds. A template is taken without braces too, as kubectl does.
func (t *tool) jsonPath(value any, template string) error {
	if !strings.Contains(template, "{") {
		template = "{." + strings.TrimPrefix(template, ".") + "}"
	}
	path := jsonpath.New("output")
	if err := path.Parse(template); err != nil {
		return misused("the jsonpath %s makes no sense: %v", template, err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	if err := path.Execute(t.streams.Out, plain); err != nil {
		return fmt.Errorf("jsonpath: %w", err)
	}
	return t.print("\n")
}
