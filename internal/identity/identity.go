// Package identity tells which credentials a Secret carries, as CredentialGuards declare it: names only, never what
// proves them.
package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

// maxIdentity is the longest identity, in bytes: that of a Kubernetes name.
const maxIdentity = 253

// Extractor reads identities as one guard declares it. Make it with Compile.
type Extractor struct {
	id      string
	sources []source
}

type source struct {
	secrets, keys []string
	optional      bool
	read          reader
}

// reader gives the identities in one value. No identities and no complaint mean that the place it looks at is not
// there or empty. A complaint is a sentence without anything of the value.
type reader func(value string) (identities []string, complaint string)

// NotFoundError says that a Secret which a guard covers does not show its identity where the guard looks for it.
type NotFoundError struct {
	// Secret and Key name the place; Key is a list of patterns where no key fits them.
	Secret, Key string
	// Problem says what is wrong there. It has nothing of the content.
	Problem string
}

// Error is a sentence that names the place.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("Secret %s, key %s: %s", e.Secret, e.Key, e.Problem)
}

// Compile checks the sources of a guard and makes them ready for use. Its errors are for the administrator who wrote
// the guard: one sentence that says what is wrong where.
func Compile(spec rotationv1.CredentialGuardSpec) (*Extractor, error) {
	if len(spec.Sources) == 0 {
		return nil, fmt.Errorf("sources: at least one is needed")
	}
	if len(spec.Credential.IdentityPaths) == 0 {
		return nil, fmt.Errorf("credential.identityPaths: at least one is needed")
	}
	if s := spec.Strength; s != "" && s != rotationv1.StrengthDelivered && s != rotationv1.StrengthProved {
		return nil, fmt.Errorf("strength: %q is neither Delivered nor Proved", s)
	}
	extractor := &Extractor{}
	for i, declared := range spec.Sources {
		compiled, err := compileSource(declared)
		if err != nil {
			return nil, fmt.Errorf("sources[%d].%w", i, err)
		}
		extractor.sources = append(extractor.sources, compiled)
	}
	text, err := json.Marshal(spec.Sources)
	if err != nil {
		return nil, fmt.Errorf("sources: %w", err)
	}
	sum := sha256.Sum256(text)
	extractor.id = hex.EncodeToString(sum[:8])
	return extractor, nil
}

func compileSource(declared rotationv1.CredentialSource) (source, error) {
	compiled := source{secrets: declared.SecretNames, keys: declared.Keys}
	for field, globs := range map[string][]string{"secretNames": declared.SecretNames, "keys": declared.Keys} {
		if len(globs) == 0 {
			return source{}, fmt.Errorf("%s: at least one name or pattern is needed", field)
		}
		for _, glob := range globs {
			if _, err := path.Match(glob, ""); err != nil || glob == "" {
				return source{}, fmt.Errorf("%s: %q is no pattern: use characters, * and ?", field, glob)
			}
		}
	}
	switch declared.Presence {
	case rotationv1.PresenceOptional:
		compiled.optional = true
	case rotationv1.PresenceRequired, "":
	default:
		return source{}, fmt.Errorf("presence: %q is neither Required nor Optional", declared.Presence)
	}
	var err error
	compiled.read, err = readerOf(declared)
	return compiled, err
}

// ID stands for the sources: what was extracted under another ID answers another question.
func (e *Extractor) ID() string { return e.id }

// Covers tells whether the guard looks into Secrets of that name.
func (e *Extractor) Covers(secret string) bool {
	return slices.ContainsFunc(e.sources, func(s source) bool { return matches(s.secrets, secret) })
}

// Identities gives the identities in a Secret's data: sorted, without duplicates, none where no source covers the
// Secret. The error is a *NotFoundError: then the Secret may carry any identity.
func (e *Extractor) Identities(secret string, data map[string][]byte) ([]string, error) {
	found := []string{}
	for _, source := range e.sources {
		if !matches(source.secrets, secret) {
			continue
		}
		identities, err := source.identities(secret, data)
		if err != nil {
			return nil, err
		}
		found = append(found, identities...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

func (s source) identities(secret string, data map[string][]byte) ([]string, error) {
	var found []string
	place := strings.Join(s.keys, " or ")
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !matches(s.keys, key) {
			continue
		}
		place = key
		if !utf8.Valid(data[key]) {
			return nil, &NotFoundError{secret, key, "the value is not UTF-8"}
		}
		identities, complaint := s.read(string(data[key]))
		for _, identity := range identities {
			if complaint == "" {
				complaint = unfit(identity)
			}
		}
		if complaint != "" {
			return nil, &NotFoundError{secret, key, complaint}
		}
		found = append(found, identities...)
	}
	if len(found) == 0 && !s.optional {
		return nil, &NotFoundError{secret, place, "there is no credential where the guard looks for it"}
	}
	return found, nil
}

// unfit says why what was captured cannot be an identity.
func unfit(identity string) string {
	switch {
	case identity == "":
		return "the identity is empty"
	case len(identity) > maxIdentity:
		return fmt.Sprintf("the identity is longer than %d bytes", maxIdentity)
	case !utf8.ValidString(identity):
		return "the identity is not UTF-8"
	case strings.ContainsFunc(identity, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return "the identity has blanks or control characters"
	}
	return ""
}

func matches(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		ok, err := path.Match(glob, name)
		return err == nil && ok
	})
}
