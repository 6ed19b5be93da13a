package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// mutant is one mistake: the bytes from Begin to End of a file replaced by Text.
type mutant struct {
	file       string
	line       int // from 1
	begin, end int
	text       string
	what       string // in words, as the list of survivors shows it
}

// apply returns the source with the mistake in it.
func (m *mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.begin], []byte(m.text), source[m.end:])
}

// finder collects the mutants of one file.
type finder struct {
	name    string
	source  []byte
	files   *token.FileSet
	mutants []mutant
}

// findMutants returns the mistakes that the operators make in a file, in the order
// of the source.
func findMutants(name string, source []byte) ([]mutant, error) {
	f := &finder{name: name, source: source, files: token.NewFileSet()}
	file, err := parser.ParseFile(f.files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.StructType, *ast.Field:
			return false
		case *ast.IfStmt:
			f.negate(n.Cond)
		case *ast.ForStmt:
			if n.Cond != nil {
				f.negate(n.Cond)
			}
		case *ast.CaseClause:
			f.drop(n.Body)
		case *ast.CommClause:
			f.drop(n.Body)
		case *ast.BlockStmt:
			f.drop(n.List)
		case *ast.BinaryExpr:
			f.binary(n)
		case *ast.AssignStmt:
			f.assignment(n)
		case *ast.IncDecStmt:
			f.token(n.TokPos, n.Tok)
		case *ast.UnaryExpr:
			f.unary(n)
		case *ast.BranchStmt:
			f.token(n.TokPos, n.Tok)
		case *ast.BasicLit:
			f.constant(n)
		case *ast.Ident:
			f.boolean(n)
		case *ast.ReturnStmt:
			f.returned(n)
		case *ast.CallExpr:
			f.arguments(n)
		}
		return true
	})
	slices.SortStableFunc(f.mutants, func(a, b mutant) int { return a.begin - b.begin })
	return f.mutants, nil
}

// add adds the mutant that replaces the source between two positions.
func (f *finder) add(from, to token.Pos, text, what string) {
	begin, end := f.files.Position(from), f.files.Position(to)
	f.mutants = append(f.mutants, mutant{f.name, begin.Line, begin.Offset, end.Offset, text, what})
}

// text returns the source of a node.
func (f *finder) text(n ast.Node) string {
	return string(f.source[f.files.Position(n.Pos()).Offset:f.files.Position(n.End()).Offset])
}

// brief is text on one line that is not long.
func (f *finder) brief(n ast.Node) string {
	text := strings.Join(strings.Fields(f.text(n)), " ")
	if len(text) > 60 {
		text = text[:57] + "..."
	}
	return text
}

// negate turns a condition around; where one operator does, binary does.
func (f *finder) negate(condition ast.Expr) {
	if b, ok := condition.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
		return
	}
	f.add(condition.Pos(), condition.End(), "!("+f.text(condition)+")", "condition negated: "+f.brief(condition))
}

// swapped are the tokens that take the place of others.
var swapped = map[token.Token][]token.Token{
	token.LSS: {token.LEQ}, token.LEQ: {token.LSS}, token.GTR: {token.GEQ}, token.GEQ: {token.GTR},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.SHL: {token.SHR}, token.SHR: {token.SHL}, token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND},
	token.ADD_ASSIGN: {token.SUB_ASSIGN, token.ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN, token.ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC}, token.BREAK: {token.CONTINUE}, token.CONTINUE: {token.BREAK},
}

// token puts other operators in the place of one.
func (f *finder) token(at token.Pos, tok token.Token) {
	for _, other := range swapped[tok] {
		f.add(at, at+token.Pos(len(tok.String())), other.String(), fmt.Sprintf("%s becomes %s", tok, other))
	}
}

// binary changes an operator, and the order of operands where that matters.
func (f *finder) binary(n *ast.BinaryExpr) {
	f.token(n.OpPos, n.Op)
	switch n.Op {
	case token.SUB, token.QUO, token.REM, token.LSS, token.LEQ, token.GTR, token.GEQ:
		f.add(n.Pos(), n.End(), f.text(n.Y)+" "+n.Op.String()+" "+f.text(n.X), "operands swapped: "+f.brief(n))
	}
}

// assignment changes the operator of an assignment.
func (f *finder) assignment(n *ast.AssignStmt) { f.token(n.TokPos, n.Tok) }

// unary drops a negation.
func (f *finder) unary(n *ast.UnaryExpr) {
	if n.Op == token.NOT || n.Op == token.SUB {
		f.add(n.OpPos, n.X.Pos(), "", n.Op.String()+" dropped: "+f.brief(n))
	}
}

// constant adds one to a whole number and a half to another.
func (f *finder) constant(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			f.add(n.Pos(), n.End(), strconv.FormatInt(v+1, 10), fmt.Sprintf("%s becomes %d", n.Value, v+1))
		}
	case token.FLOAT:
		f.add(n.Pos(), n.End(), "("+n.Value+"*1.5)", n.Value+" becomes half as much again")
	}
}

// boolean turns true and false around.
func (f *finder) boolean(n *ast.Ident) {
	other := map[string]string{"true": "false", "false": "true"}[n.Name]
	if other != "" {
		f.add(n.Pos(), n.End(), other, n.Name+" becomes "+other)
	}
}

// returned loses the error of a return.
func (f *finder) returned(n *ast.ReturnStmt) {
	if len(n.Results) == 0 {
		return
	}
	if last, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && strings.HasPrefix(last.Name, "err") {
		f.add(last.Pos(), last.End(), "nil", last.Name+" becomes nil in a return")
	}
}

// arguments swaps two arguments that follow each other. Where their types differ the
// mutant does not compile, and does not count.
func (f *finder) arguments(n *ast.CallExpr) {
	for i := 1; i < len(n.Args); i++ {
		a, b := n.Args[i-1], n.Args[i]
		if f.text(a) != f.text(b) {
			f.add(a.Pos(), b.End(), f.text(b)+", "+f.text(a), "arguments swapped: "+f.brief(a)+", "+f.brief(b))
		}
	}
}

// drop leaves out each statement of a block that can be.
func (f *finder) drop(block []ast.Stmt) {
	for _, s := range block {
		switch s := s.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.IfStmt:
			if s.Else != nil {
				continue
			}
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.SendStmt, *ast.BranchStmt, *ast.GoStmt, *ast.ForStmt, *ast.RangeStmt:
		default:
			continue
		}
		f.add(s.Pos(), s.End(), "", "dropped: "+f.brief(s))
	}
}
