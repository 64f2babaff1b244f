// Saves a table as CSV, made here from what is shown: nothing is fetched.
for (const button of document.querySelectorAll("button.csv")) {
  button.addEventListener("click", () => {
    const table = button.closest("table");
    const quote = (text) => (/[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
    const rows = [...table.rows].map((row) => [...row.cells].map((cell) => quote(cell.textContent)).join(","));
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([rows.join("\r\n") + "\r\n"], { type: "text/csv" }));
    link.download = table.caption.firstChild.textContent.trim().replace(/[^A-Za-z0-9]+/g, "-").slice(0, 60) + ".csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
