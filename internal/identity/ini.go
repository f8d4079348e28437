package identity

import "strings"

// anySection stands for every section of an INI file.
const anySection = "*"

// iniValues gives the values of an option, each time that it stands in the file, read as oslo.config reads it: a line
// that begins with a blank goes on with the option before, # and ; begin comments at the start of a line, matching
// quotes round a value are dropped. Sections and options are found whatever their case.
func iniValues(text, section, key string) (values []string, complaint string) {
	var inSection, inOption, ours bool
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		switch {
		case line == "":
			inOption = false
		case line[0] == ' ' || line[0] == '\t':
			if !inOption {
				return nil, "it is no INI file: a line begins with a blank and goes on with nothing"
			}
			if ours {
				values[len(values)-1] += "\n" + strings.TrimSpace(line)
			}
		case line[0] == '#' || line[0] == ';':
			inOption = false
		case line[0] == '[':
			name, ok := strings.CutSuffix(line[1:], "]")
			if !ok || name == "" {
				return nil, "it is no INI file: a section has no name or no end"
			}
			inSection, inOption = section == anySection || strings.EqualFold(name, section), false
		default:
			end := strings.IndexAny(line, ":=")
			if end <= 0 {
				return nil, "it is no INI file: a line is neither section nor option nor comment"
			}
			inOption = true
			ours = inSection && strings.EqualFold(strings.TrimSpace(line[:end]), key)
			if ours {
				values = append(values, unquoted(strings.TrimSpace(line[end+1:])))
			}
		}
	}
	return values, ""
}

func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		return value[1 : n-1]
	}
	return value
}
