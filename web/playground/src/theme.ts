// Runs before the first paint, so that a theme that was chosen is not preceded by the other one.
{
  try {
    const chosen = localStorage.getItem("lingserve.theme"); // JSON, as storage.ts keeps it
    if (chosen === '"light"' || chosen === '"dark"') document.documentElement.dataset.theme = chosen.slice(1, -1);
  } catch {} // storage is forbidden; the system's theme it is
}
