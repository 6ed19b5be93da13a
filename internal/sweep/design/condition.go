package design

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/scanner"
	"go/token"
	"reflect"
	"slices"
	"strconv"

	"github.com/l3sim/l3sim/configs"
	"github.com/l3sim/l3sim/input"
	"github.com/l3sim/l3sim/input/schema"
)

// condition is an expression over the keys of a configuration, in the syntax of Go: comparisons, &&
// || !, + - * / % on numbers, and parentheses. Text in double quotes is compared with text; two
// quantities of one kind ("2TiB", "512GiB") are compared by size.
type condition struct {
	Text string
	expr ast.Expr
	keys []string // the keys in the expression
}

// ParseCondition reads an expression and checks that its names are keys of the
// configuration.
func ParseCondition(keys *configs.Schema, text string) (*condition, error) {
	fail := func(err error) error {
		return &input.Error{Key: "where", Value: fmt.Sprintf("%q", text), Err: err}
	}
	expr, err := parser.ParseExpr(text)
	if err != nil {
		if list, ok := err.(scanner.ErrorList); ok && len(list) > 0 {
			err = fmt.Errorf("column %d: %s", list[0].Pos.Column, list[0].Msg)
		}
		return nil, fail(err)
	}
	c := &condition{Text: text, expr: expr}
	if err := c.check(keys, expr); err != nil {
		return nil, input.Edit(err, func(e *input.Error) { e.Key = "where: " + e.Key })
	}
	return c, nil
}

// check walks the expression and collects the keys. It returns an error for a part that
// is not in the language.
func (c *condition) check(keys *configs.Schema, e ast.Expr) error {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.check(keys, e.X)
	case *ast.UnaryExpr:
		return c.check(keys, e.X)
	case *ast.BinaryExpr:
		if bad := c.check(keys, e.X); bad != nil {
			return bad
		}
		return c.check(keys, e.Y)
	case *ast.BasicLit:
		return nil
	}
	key, ok := dotted(e)
	if !ok {
		return &input.Error{Key: fmt.Sprintf("%q", c.Text), Expected: "keys, numbers, quoted text, comparisons, && || ! and + - * / %"}
	}
	if key == "true" || key == "false" {
		return nil
	}
	if keys.Key(key) == nil {
		return keys.Unknown(key)
	}
	c.keys = append(c.keys, key)
	return nil
}

// dotted returns the key that a selector spells.
func dotted(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, true
	case *ast.SelectorExpr:
		left, ok := dotted(e.X)
		return left + "." + e.Sel.Name, ok
	}
	return "", false
}

// holds evaluates the condition; value gives the value of each key it mentions.
func (c *condition) holds(value func(key string) constant.Value) (bool, error) {
	v, err := evaluate(c.expr, value)
	if err == nil && v.Kind() != constant.Bool {
		err = fmt.Errorf("is %v, not true or false", v)
	}
	if err != nil {
		return false, &input.Error{Key: "where", Value: fmt.Sprintf("%q", c.Text), Err: err}
	}
	return constant.BoolVal(v), nil
}

// Keeps says whether all conditions of a file hold whose keys have a value; it ignores the others.
func (f *File) Keeps(value func(key string) constant.Value) (bool, error) {
	for _, c := range f.Where {
		if slices.ContainsFunc(c.keys, func(key string) bool { return value(key) == nil }) {
			continue
		}
		holds, err := c.holds(value)
		if err != nil {
			return false, input.Edit(err, func(e *input.Error) { e.File = f.Path })
		}
		if !holds {
			return false, nil
		}
	}
	return true, nil
}

// evaluate computes a condition's value exactly (go/constant). value gives the columns of a point; operators of
// other types are errors.
func evaluate(e ast.Expr, value func(string) constant.Value) (constant.Value, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return evaluate(e.X, value)
	case *ast.BasicLit:
		v := constant.MakeFromLiteral(e.Value, e.Kind, 0)
		if k := v.Kind(); k != constant.Int && k != constant.Float && k != constant.String {
			return nil, fmt.Errorf("%s is neither a number nor a text", e.Value)
		}
		return v, nil
	case *ast.UnaryExpr:
		x, err := evaluate(e.X, value)
		if err != nil {
			return nil, err
		}
		if e.Op == token.NOT && x.Kind() == constant.Bool || e.Op == token.SUB && isNumber(x) {
			return constant.UnaryOp(e.Op, x, 0), nil
		}
		return nil, fmt.Errorf("%s%v has no meaning", e.Op, x)
	case *ast.BinaryExpr:
		x, err := evaluate(e.X, value)
		if err != nil {
			return nil, err
		}
		y, err := evaluate(e.Y, value)
		if err != nil {
			return nil, err
		}
		return applyOperator(x, e.Op, y)
	}
	key, _ := dotted(e)
	if key == "true" || key == "false" {
		return constant.MakeBool(key == "true"), nil
	}
	return value(key), nil
}

func isNumber(v constant.Value) bool {
	return v.Kind() == constant.Int || v.Kind() == constant.Float
}

func applyOperator(x constant.Value, op token.Token, y constant.Value) (constant.Value, error) {
	bad := fmt.Errorf("%v %s %v has no meaning", x, op, y)
	switch op {
	case token.LAND, token.LOR:
		if x.Kind() != constant.Bool || y.Kind() != constant.Bool {
			return nil, bad
		}
		return constant.BinaryOp(x, op, y), nil
	case token.ADD, token.SUB, token.MUL, token.QUO, token.REM:
		if !isNumber(x) || !isNumber(y) {
			return nil, bad
		}
		if (op == token.QUO || op == token.REM) && constant.Sign(y) == 0 {
			return nil, fmt.Errorf("%v %s 0 has no value", x, op)
		}
		if op == token.REM && (x.Kind() != constant.Int || y.Kind() != constant.Int) {
			return nil, bad
		}
		return constant.BinaryOp(x, op, y), nil
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
	default:
		return nil, bad
	}
	if x.Kind() == constant.String && y.Kind() == constant.String {
		if a, b, ok := quantities(constant.StringVal(x), constant.StringVal(y)); ok {
			return constant.MakeBool(constant.Compare(a, op, b)), nil
		}
		return constant.MakeBool(constant.Compare(x, op, y)), nil
	}
	switch {
	case isNumber(x) && isNumber(y):
	case x.Kind() == constant.Bool && y.Kind() == constant.Bool && (op == token.EQL || op == token.NEQ):
	default:
		return nil, bad
	}
	return constant.MakeBool(constant.Compare(x, op, y)), nil
}

// quantities reads two texts as quantities of one kind.
func quantities(a, b string) (x, y constant.Value, ok bool) {
	v, w, ok := schema.Quantities(a, b)
	if !ok {
		return nil, nil, false
	}
	return fieldValue(v), fieldValue(w), true
}

func fieldValue(v reflect.Value) constant.Value {
	switch {
	case v.CanInt():
		return constant.MakeInt64(v.Int())
	case v.CanUint():
		return constant.MakeUint64(v.Uint())
	}
	return constant.MakeFloat64(v.Float())
}

// KeyConstant returns the value of a configuration's key for a condition: quantities are text, as
// written.
func KeyConstant(field reflect.Value) constant.Value {
	if schema.IsQuantity(field.Type()) {
		return constant.MakeString(schema.Text(field))
	}
	switch field.Kind() {
	case reflect.String:
		return constant.MakeString(field.String())
	case reflect.Bool:
		return constant.MakeBool(field.Bool())
	}
	return fieldValue(field)
}

// Constant returns the value of the setting for a condition.
func (s *Setting) Constant() constant.Value {
	switch s.Value {
	case "true", "false":
		return constant.MakeBool(s.Value == "true")
	}
	if n, err := strconv.ParseInt(s.Value, 0, 64); err == nil {
		return constant.MakeInt64(n)
	}
	if f, err := strconv.ParseFloat(s.Value, 64); err == nil {
		return constant.MakeFloat64(f)
	}
	return constant.MakeString(schema.Plain(s.Value))
}
