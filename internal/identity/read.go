package identity

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/util/jsonpath"

	rotationv1 "github.com/rotation-operator/rotation-operator/api/rotation/v1alpha1"
)

func readerOf(declared rotationv1.CredentialSource) (reader, error) {
	var readers []reader
	var failed error
	add := func(read reader, err error) {
		readers = append(readers, read)
		if failed == nil {
			failed = err
		}
	}
	if declared.Regexp != "" {
		add(byRegexp(declared.Regexp))
	}
	if declared.URLUser != nil {
		add(byURL(*declared.URLUser))
	}
	if declared.INI != nil {
		add(byINI(*declared.INI))
	}
	if declared.JSONPath != "" {
		add(byJSONPath(declared.JSONPath))
	}
	if len(readers) != 1 {
		return nil, fmt.Errorf("regexp, urlUser, ini, jsonPath: exactly one of them is needed, there are %d", len(readers))
	}
	return readers[0], failed
}

func byRegexp(pattern string) (reader, error) {
	expression, err := checked(pattern)
	if err != nil {
		return nil, err
	}
	group := expression.SubexpIndex(groupName)
	return func(value string) ([]string, string) {
		if strings.TrimSpace(value) == "" {
			return nil, ""
		}
		var identities []string
		for _, match := range expression.FindAllStringSubmatch(value, -1) {
			identities = append(identities, match[group])
		}
		if len(identities) == 0 {
			return nil, "the regexp finds nothing"
		}
		return identities, ""
	}, nil
}

func byURL(declared rotationv1.URLUser) (reader, error) {
	if len(declared.Schemes) == 0 {
		return nil, fmt.Errorf("urlUser.schemes: at least one is needed")
	}
	for _, scheme := range declared.Schemes {
		if !schemeName.MatchString(scheme) {
			return nil, fmt.Errorf("urlUser.schemes: %q is no scheme of a URL", scheme)
		}
	}
	return func(value string) ([]string, string) {
		if strings.TrimSpace(value) == "" {
			return nil, ""
		}
		identities := []string{}
		for _, found := range beginningOfURL.FindAllStringSubmatchIndex(value, -1) {
			if !slices.ContainsFunc(declared.Schemes, func(s string) bool { return strings.EqualFold(s, value[found[2]:found[3]]) }) {
				continue
			}
			users, complaint := usersOf(value[found[1]:])
			if complaint != "" {
				return nil, complaint
			}
			identities = append(identities, users...)
		}
		if len(identities) == 0 {
			return nil, "there is no URL of the guard's schemes"
		}
		return identities, ""
	}, nil
}

var (
	schemeName     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*$`)
	beginningOfURL = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*)://`)
)

// usersOf gives the user of each host of a URL from which the scheme was cut off. A host without one makes it
// doubtful what the others mean.
func usersOf(rest string) (users []string, complaint string) {
	if end := strings.IndexAny(rest, "/?#\"' \t\r\n"); end >= 0 {
		rest = rest[:end]
	}
	for host := range strings.SplitSeq(rest, ",") {
		at := strings.LastIndexByte(host, '@')
		if at < 0 {
			return nil, "a host of the URL has no user"
		}
		escaped, _, _ := strings.Cut(host[:at], ":")
		if strings.ContainsRune(escaped, '$') {
			return nil, composed
		}
		user, err := url.QueryUnescape(escaped)
		if err != nil {
			return nil, "the user of the URL is not escaped as URLs are"
		}
		users = append(users, user)
	}
	return users, ""
}

// composed: oslo.config would put another option's value in the place of $name.
const composed = "the identity is composed of other options ($)"

func byINI(declared rotationv1.INIOption) (reader, error) {
	if declared.Section == "" || declared.Key == "" {
		return nil, fmt.Errorf("ini: section and key are both needed")
	}
	if declared.Regexp != "" && declared.URLUser != nil {
		return nil, fmt.Errorf("ini: at most one of regexp and urlUser is possible")
	}
	if declared.Regexp == "" && declared.URLUser == nil && confidential.MatchString(declared.Key) {
		return nil, fmt.Errorf("ini.key: %s is by its name a secret, not an identity", declared.Key)
	}
	var inner reader
	var err error
	switch {
	case declared.Regexp != "":
		inner, err = byRegexp(declared.Regexp)
	case declared.URLUser != nil:
		inner, err = byURL(*declared.URLUser)
	default:
		inner = func(value string) ([]string, string) {
			if strings.ContainsRune(value, '$') {
				return nil, composed
			}
			return []string{value}, ""
		}
	}
	if err != nil {
		return nil, fmt.Errorf("ini.%w", err)
	}
	return func(value string) ([]string, string) {
		options, complaint := iniValues(value, declared.Section, declared.Key)
		if complaint != "" {
			return nil, complaint
		}
		var identities []string
		for _, option := range options {
			if option == "" {
				continue // an empty option is none
			}
			found, complaint := inner(option)
			if complaint != "" {
				return nil, fmt.Sprintf("[%s] %s: %s", declared.Section, declared.Key, complaint)
			}
			identities = append(identities, found...)
		}
		return identities, ""
	}, nil
}

func byJSONPath(expression string) (reader, error) {
	if confidential.MatchString(expression) {
		return nil, fmt.Errorf("jsonPath: %s is by its name a secret, not an identity", expression)
	}
	if err := jsonpath.New(groupName).Parse(expression); err != nil {
		return nil, fmt.Errorf("jsonPath: %q: %w", expression, err)
	}
	return func(value string) ([]string, string) {
		if strings.TrimSpace(value) == "" {
			return nil, ""
		}
		var document any
		if err := json.Unmarshal([]byte(value), &document); err != nil {
			return nil, "the value is not JSON" // the error would quote it
		}
		query := jsonpath.New(groupName).AllowMissingKeys(true)
		if err := query.Parse(expression); err != nil {
			return nil, "the path cannot be followed"
		}
		results, err := query.FindResults(document)
		if err != nil {
			return nil, "the path cannot be followed"
		}
		var identities []string
		for _, result := range slices.Concat(results...) {
			identity, ok := result.Interface().(string)
			if !ok {
				return nil, "the path does not lead to a string"
			}
			if identity != "" {
				identities = append(identities, identity)
			}
		}
		return identities, ""
	}, nil
}
