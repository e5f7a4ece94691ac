"use strict";
// Where a review stands among its rows: on a decided one only where somebody goes to it.
const reviewPlace = {
  // The first that is not decided, from a place on, else from the top; behind the last if none is.
  open(rows, isDecided, from = 0) {
    const first = (start) => rows.findIndex((k, i) => i >= start && !isDecided(k));
    const ahead = first(from), open = ahead >= 0 ? ahead : first(0);
    return open >= 0 ? open : rows.length;
  },
  // Whether the row that we are at stays where rows are chosen anew: by the user, if it is among
  // them; by the server, while it is open or somebody went to it: the next key is meant for it.
  stays: (isDecided, row, isAsked, visited) =>
    isAsked || (row !== undefined && (row === visited || !isDecided(row))),
  // In rows that were chosen anew: where the same row stands, if it may stay.
  again(rows, isDecided, row, stays) {
    const same = stays ? rows.indexOf(row) : -1;
    return same >= 0 ? same : this.open(rows, isDecided);
  },
};
