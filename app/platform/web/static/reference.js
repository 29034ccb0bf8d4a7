"use strict";

const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

/** Swagger UI is dark where the page is. */
function followTheme() {
  const theme = root.dataset.theme;
  root.classList.toggle("dark-mode", theme === "dark" || (theme !== "light" && prefersDark.matches));
}

followTheme();
prefersDark.addEventListener("change", followTheme);

SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  presets: [SwaggerUIBundle.presets.apis, SwaggerUIBundle.SwaggerUIStandalonePreset],
});
